"""Where an answer, a score or a selector's figure comes from: a tree from the thing down to files and model calls."""
