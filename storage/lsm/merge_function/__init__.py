"""Merge functions: they make one row of several records of a key.

Read `api` (the protocol; deduplicate, first-row) and `factory` (the function of a table), then `segments` with
`aggregate` and `partial_update`. Their functions over columns are in `fields`, and `aggregate` reads them from a
table's options. `row_rules` says which rows writers may pass.
"""
