"""Filters: their form, their text, their effect on rows and on statistics.

Read `expr` (the tree), `operands` (its leaves) and `conditions` (what callers write) with `grammar` (its text), then
`evaluate` (rows in memory), `stats_filter` (files by their statistics) and `json`.
"""
