"""Aggregate functions of columns: their names (`functions`), their base classes (`fold`), and the functions."""
