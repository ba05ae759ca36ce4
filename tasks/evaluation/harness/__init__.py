"""Tasks of the lm-evaluation-harness (the extra `harness`), with our backends as its model."""
