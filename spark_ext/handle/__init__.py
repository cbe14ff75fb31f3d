"""A table as Spark has it loaded: the handle, its columns, its options, its definition.

Read `table_handle`, `session_options` and `ddl`, then `row_changes` and `clustering`; `reports` has
the errors and metrics that Spark shows.
"""
