"""Format tables: directories of plain files of one format, in Hive's layout of partitions, without snapshots and keys.

Read definition.py for what the options of such a table say, directories.py for its partitions and files, reading.py and
query.py for reads, writing.py for new files, and format_table.py for the table itself.
"""
