"""Casts between a file's type of a column and the column's type now.

Read `rules` (which casts exist) and `cast` (the entry point, and texts as values), then `numeric` and `formatting`
(values as text).
"""
