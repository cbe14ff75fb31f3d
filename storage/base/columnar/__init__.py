"""Files of columns, Parquet and ORC: `records` of metadata, their `schema`, and `checksums` of all files."""
