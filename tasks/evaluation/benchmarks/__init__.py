"""Benchmarks: one file each, or a YAML file; `benchmark_registry` finds them."""
