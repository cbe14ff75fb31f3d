"""Paimon's REST catalog: the tables of Hive's clients, and directories of tables without a metastore, for clients with
`metastore` = `rest`.

Every rule (locks, registration, partitions, locations) is that of interbed's Hive catalog, which calls the metastore of
this process, or of its file-system catalog (catalogs.py, access.py). The file system is the truth:
schemas, snapshots, tags and branches are files.

Read interface.py (all routes, and tables for Iceberg's interface), then a noun: databases.py with functions, tables.py
with partitions, snapshots.py with commits, versions.py, views.py. messages.py has the JSON of requests and responses,
pages and patterns, refusals.py errors, schema_json.py schemas and their changes.

Source: Paimon's documentation, static/rest-catalog-open-api.yaml, and paimon-api's org.apache.paimon.rest.
"""
