"""Formats of data files: Parquet, ORC and Avro, each with a reader and a writer of Arrow batches.

Read `api` (the protocols), `readers` and `writer` (the entry points), `layout` (what a table's files
have in common), then the formats: `parquet` with `parquet_writer` and `pages`, `orc`, `avro`. `stats` collects the
statistics of columns.
"""
