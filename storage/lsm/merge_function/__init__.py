"""Merge functions: they make one row of several records of a key.

Read `api` (the protocol), `factory` (the function of a table) and `whole_record` (deduplicate, first-row), then
`segments` with `aggregate` and `partial_update`. Their functions over columns are in `fields`, and `aggregate` reads
them from a table's options. `row_rules` says which rows writers may pass.
"""
