"""Paimon's REST catalog: the tables of Hive's clients, and directories of tables without a metastore, for clients with
`metastore` = `rest`.

Every rule (locks, registration, partitions, locations) is that of interbed's Hive catalog, which calls the metastore of
this process (in_process.py), or of its file-system catalog (catalogs/, access.py). The file system is the truth:
schemas, snapshots, tags and branches are files.

Read interface.py (all routes), then a noun: databases.py, tables.py, snapshots.py with commits.py, versions.py,
partitions.py, views.py. messages.py has the JSON of requests and responses, paging.py pages and patterns, refusals.py
errors, schema_changes.py the changes of schemas.

Source: Paimon's documentation, static/rest-catalog-open-api.yaml, and paimon-api's org.apache.paimon.rest.
"""
