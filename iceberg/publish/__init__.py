"""Publication of interbed's tables as Iceberg tables: Iceberg's metadata over the same data files, after each commit.

From the top: publication (the listener that storage calls, and one run) > history (the snapshots as Iceberg's),
registration (in a Hive metastore or a REST catalog) > manifests, entries > document (the metadata
file, its schemas and partition specs) > place (paths and options).
"""
