"""Numbers of tables: every numeric cell with its value, unit, period, and the path of its row and column."""
