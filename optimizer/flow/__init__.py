"""Values that pass through the optimizer. No I/O.

Read `kind` (kinds of work, and that a table needs one), `process` (a process and its tasks), `group` (resource groups
and their workers), `table_state` (what is known of a table), then `tables` (the protocol between scheduler and tables).
"""
