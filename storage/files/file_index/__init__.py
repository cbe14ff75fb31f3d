"""Indexes of single data files: which files, and which of their rows, can hold what a filter asks for.

Read `api` (the protocols), `container` (all indexes of a file), `spec` (a table's options and the writer) and
`evaluate` (a filter), then `values` and `kinds` with the four indexes: `bitmap`, `bsi`, `range_bitmap` and
`bloom_filter`.
"""
