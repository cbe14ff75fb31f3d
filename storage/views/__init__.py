"""What can be looked at beside a table's rows: system tables, LSM levels, streams of changes, pypaimon's builders.

`change_query` reads what changed between snapshots, `change_view` the same as a table (audit log, binlog). The folders:
`stream` reads changes as they are committed, `system` has the system tables, `builder` pypaimon's interface, `levels`
the drawings of LSM trees, `simulate` compaction without I/O. `figure` loads matplotlib for the pictures.
"""
