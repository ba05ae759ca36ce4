"""A night of evaluations: what a suite asks for, how it stands against the nights before, and the report of it."""
