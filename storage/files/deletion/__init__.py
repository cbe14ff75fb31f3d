"""Deletion vectors: which rows of a data file are not the table's any more."""
