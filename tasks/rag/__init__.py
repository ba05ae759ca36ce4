"""Question answering over documents. The defaults below are shared by commands, flows and domain code."""

CHUNK_CHARS = 800
"""Maximum length of a chunk, in characters."""
OVERLAP_CHARS = 120
"""Characters that a chunk repeats from the one before it."""
STRATEGY = "rrf"
"""Retrieval strategy used unless another is chosen, and where the chosen one cannot serve the question."""
