"""Answers as words to be spoken."""
