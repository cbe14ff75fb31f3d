"""Bytes and values: file systems, types, rows, predicates, Avro. Knows no table."""
