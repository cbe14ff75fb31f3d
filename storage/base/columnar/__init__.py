"""Files of columns: Parquet and ORC."""
