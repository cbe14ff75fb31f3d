"""Metadata of one table: options, schemas, snapshots, manifests, paths.

Read `file_store` first: it opens a table's metadata. `paths` lists every file of a table; the folders `schema`,
`snapshot`, `manifest` and `options` each hold one kind of metadata. `bucket_mode` and `bucket_function` assign rows to
buckets, `merge_schema` extends a schema by new columns.
"""
