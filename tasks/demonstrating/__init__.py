"""Demonstrations for the questions of a benchmark, chosen as the lever chooses them."""
