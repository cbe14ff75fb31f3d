"""Casts between a file's type of a column and the column's type now."""
