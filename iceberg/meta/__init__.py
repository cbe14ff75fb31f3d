"""An Iceberg table's metadata as values of interbed's own.

Read `manifests` (entries of files), `live_files` (the files of a snapshot), then `table_metadata`.
"""
