"""Chunks that answer: retrievers, their fusion, and the numbers that weigh them."""
