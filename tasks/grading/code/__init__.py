"""Answers that are programs: the code is taken out of them, put together with its tests, executed and counted."""
