"""The methods of the metastore's interface, one handler class for each kind of object.

Start with service.py, which lists all handlers, then databases.py and tables.py. partition_reads.py and partitions.py
read and change partitions; statistics.py, queries.py, events.py and locks.py are independent.
"""
