"""Maintenance of Iceberg tables: files are rewritten for readers, old snapshots and orphan files are deleted.

Read `planner` (which files need which work, and how healthy a table is), `job` (what the units share), `run_unit`, then
`compact` (all in one process, or units for other processes). `expire` deletes files.
"""
