"""Aggregate functions of columns: `functions` has their names, `fold` what they share; the others are the functions."""
