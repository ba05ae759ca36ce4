"""Fits the reader of questions and reports how right it is."""
