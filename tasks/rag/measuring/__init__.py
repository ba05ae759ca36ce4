"""How good searches and answers are: figures with intervals, and their rows in the database."""
