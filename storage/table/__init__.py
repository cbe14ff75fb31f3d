"""The facade: a table as users see it, and the rules that a new table must keep.

Read `opening` and `table` first. `Table` has the methods of `table_writes` and `table_methods` (its changes, and
pypaimon's names). Its parts `versions`, `maintenance` and `access` are in `table_versions`, `table_maintenance` and
`described`. Each method imports what it needs when it is called. `option_rules`, with `log_rules`, and `schema_update`
check options; `row_views` has the views `t$ro` and `t$row_tracking`.
"""
