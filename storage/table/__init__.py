"""The facade: a table as users see it, and the rules that a new table must keep."""
