"""A new snapshot of an Iceberg table: what it replaces, whether it still may, and how it becomes the newest.

Read `home` (where metadata files are), `attempts` (optimistic concurrency), `replacement` (what replaces what), then
`replace` (its commit) and `snapshot` (the manifests of the new one).
"""
