"""Measures models on benchmarks: every answer is generated once, graded, summed up with error bars, and stored."""
