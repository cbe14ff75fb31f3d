"""Views of a table beside its rows: system tables, LSM levels, streams of changes, pypaimon's builders.

`changes` reads what changed between snapshots, also as a table (audit log, binlog). `levels` and `level_drawing` show
LSM trees. `stream` reads changes as they are committed, `system` has the system tables, `builder` pypaimon's interface,
`simulate` compaction without I/O. `figure` loads matplotlib for pictures.
"""
