"""A table that Spark has loaded: its handle, columns, options and definition.

Read `table_handle`, `session_options` and `ddl`, then `row_changes` and `clustering`; `reports` has
the errors and metrics that Spark shows.
"""
