"""Encoded rows: Paimon's BinaryRow, its hash, and the Python values of its fields.

Read `values` and `binary_row`, then `words` (many rows at once, and the hash), `kind` and `python_values`.
"""
