"""The facade: a table as users see it, and the rules that a new table must keep.

Read `opening` and `table` first. `Table` joins its methods from `table_access`, `table_writes`, `table_changes`,
`table_versions`, `table_upkeep` and `table_names` (pypaimon's); each imports what it needs when it is called.
`option_rules` and `new_values` check options; `read_optimized` is the view `t$ro`.
"""
