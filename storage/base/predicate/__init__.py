"""Filters: their form, their text, their effect on rows and on statistics.

Read `expr` (the tree), `parse` with `grammar` (its text) and `column` (in Python), then `literals` and `reference` (its
leaves), `evaluate` (rows in memory), `stats_filter` (files by their statistics) and `json`.
"""
