"""The workplace: pages to ask, to see the cited place and to read every run, and the doors for other programs."""
