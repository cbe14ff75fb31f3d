"""Rows as bytes: Paimon's BinaryRow, its hash, and the Python values of its fields."""
