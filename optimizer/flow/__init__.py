"""Values that pass through the optimizer. No I/O.

Read `process` (kinds of work, a process and its tasks), then `tables` (resource groups and their workers, the state of
a table, and the protocols between scheduler and tables).
"""
