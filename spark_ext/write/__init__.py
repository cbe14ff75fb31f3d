"""Writes: tasks write files, and one commit on the driver makes them visible.

Read `writer`, then `change_writer` (UPDATE, DELETE, MERGE INTO) and `sink` (streams).
"""
