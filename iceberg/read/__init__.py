"""Data files become rows: columns by their ids, without deleted rows.

Read `task_read` (the rows of tasks, and their deletes), `files` (one data file), then `key_table`.
"""
