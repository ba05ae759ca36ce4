"""Nightly evaluations: the suite file, the comparison with earlier nights, and the report."""
