"""The client library: databases and tables by name, in a file system or in a Hive metastore, and the command line.

Read api.py first, then filesystem.py and hive/catalog.py, the two implementations, which share staging.py and files/.
`factory` opens a catalog by its options, `configuration` by its name. `table_parts` has the methods for partitions,
tags, branches and snapshots, `recovery` those for dropped tables, `global_tables` the system tables in the database
`sys`, `table_compaction` the compaction of tables by name. The commands are in cli/.
"""
