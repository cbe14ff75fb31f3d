"""Tables of interbed published as Iceberg tables: Iceberg's metadata over the same data files, after each commit.

From the top: hook (where storage calls) > publication (one run of it) > line (the snapshots as Iceberg's), register
(the entry in a Hive metastore) > manifests, entries > document (the metadata file), retention, changes > columns,
place, settings.
"""
