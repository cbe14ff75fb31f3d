"""The methods of the metastore's interface, one handler class for each kind of object.

Start with service.py, which lists all handlers and has those of databases and functions, then tables.py. partitions.py
reads and changes partitions; statistics.py, locks.py and grants.py are independent.
"""
