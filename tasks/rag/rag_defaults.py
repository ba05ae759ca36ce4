"""Defaults that commands, flows and domain code share; imports nothing, so that `--help` stays quick."""

CHUNK_CHARS = 800
"""Most characters of a chunk."""
OVERLAP_CHARS = 120
"""Characters that a chunk repeats of the one before it."""
STRATEGY = "rrf"
"""The retrieval strategy that runs where nobody chooses, and in place of one that cannot serve the question."""
