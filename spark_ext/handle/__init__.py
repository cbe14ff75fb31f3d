"""A table that Spark has loaded: its handle, columns, options and definition.

Read `table_handle`, `session_options` and `format_tables` (with DDL), then `row_changes`; `reports` has
the errors and metrics that Spark shows.
"""
