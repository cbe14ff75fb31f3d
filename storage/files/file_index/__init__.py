"""Indexes of single data files: which files, and which of their rows, can hold what a filter asks for."""
