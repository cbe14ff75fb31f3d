"""Maintenance of Iceberg tables: files are rewritten for readers, old snapshots and orphan files are deleted.

Read `planner` (which files are worth what work), `job` (what the units share), `run_unit` with `data_files`, then
`compact` (all in one process) or `wire` (units for other processes). `health` measures a table; `expire` and `orphans`
delete files.
"""
