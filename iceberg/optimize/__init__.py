"""Maintenance of Iceberg tables: files are rewritten for readers, old snapshots and orphan files are deleted.

Read `planner` (which files need which work, what the units share, and how healthy a table is), `run_unit`, then
`compact` (all in one process, or units for other processes). `expire` deletes files.
"""
