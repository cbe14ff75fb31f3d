"""Merge functions: what several records of one key become.

Read `api` (the protocol), `factory` (the function of a table) and `deduplicate`, then `first_row`, `segments` with
`aggregate` and `partial_update`, whose functions over columns are in `fields`; `row_rules` answers writers, `lookup`
compactions.
"""
