"""Writes: tasks write files, one commit on the driver shows them.

Read `writer`, then `change_writer` (UPDATE, DELETE, MERGE INTO) and `sink` (streams).
"""
