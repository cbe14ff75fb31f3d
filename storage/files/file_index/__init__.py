"""Indexes of single data files: which files, and which of their rows, can match a filter.

Read `api` (the protocols, and the container of all indexes of a file), `spec` (the kinds, a table's options and the
writer) and `evaluate` (a filter), then `values` with the four kinds of index: `bitmap`, `bsi`, `range_bitmap` and
`bloom_filter`.
"""
