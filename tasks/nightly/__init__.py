"""Nightly runs: the suite file, the comparison with earlier nights, and the report."""
