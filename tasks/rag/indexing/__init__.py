"""Documents become an index: one module per step and what it keeps."""
