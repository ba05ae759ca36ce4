"""How good searches and answers are: figures with intervals, sweeps, plots, and their rows in the database."""
