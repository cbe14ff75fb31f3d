"""Publication of interbed's tables as Iceberg tables: Iceberg's metadata over the same data files, after each commit.

From the top: publication (the listener that storage calls, and one run) > history (the snapshots as Iceberg's),
register (the entry in a Hive metastore), rest_catalog > manifests, entries > document (the metadata file), changes >
columns, place, settings.
"""
