"""Formats of data files: Parquet, ORC and Avro, each with a reader and a writer of Arrow batches."""
