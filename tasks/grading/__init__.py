"""Graders: an item and its response in, a sample out; pure, and never stopped by what a model wrote."""
