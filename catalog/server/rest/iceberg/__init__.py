"""Iceberg's REST catalog over the tables of the metastore: `http://host:port/iceberg`.

The entry of a table is that of Iceberg's HiveCatalog: `table_type=ICEBERG`, and `metadata_location` names the newest
metadata file. So clients of both interfaces see the same tables. The database alone decides which metadata file is
the newest one; files that no entry names are not of the table.

Read names.py, metadata/ (what a commit does to a document), entries.py (what the metastore's entry says), store.py
(tables and their metadata files), commits.py (compare-and-swap), then the handlers: namespaces.py, tables.py,
scan_plans.py (scans that the server plans), delegated.py (access to files), and routes.py (with repeated changes).
"""
