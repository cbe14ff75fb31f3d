"""An Iceberg table's metadata as values of interbed's own.

Read `manifests` (entries of files), `live_files` (those of a snapshot), then `filters`, `types`, `puffin` and
`table_metadata`.
"""
