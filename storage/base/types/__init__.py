"""Logical types of Paimon: their text, JSON and Arrow forms, and exact conversions of values to them.

Read `data_type` and `arrow` first, then `exact_cast` (columns of a caller) and `object_arrays` (Python's values).
"""
