"""Data files become rows: columns by their ids, without deleted rows.

Read `task_read` (the rows of tasks), `files` and `file_columns` (one data file), then `deletions` with `key_table`.
"""
