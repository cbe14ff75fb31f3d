"""A table as Spark has it loaded: the handle, its columns, its options, its definition."""
