"""The rules of a Hive metastore: what may be created, altered, dropped, locked. Knows neither Thrift nor SQL.

Start with model.py (the values) and repository.py (the protocols of the repositories), then service.py, which joins the
services and has that of catalogs: databases.py, tables/, partitions/, constraints.py, statistics.py, locks.py,
notifications.py, hiveserver2.py. directories/ and warehouse.py check and change directories; filters/ selects
partitions and tables.
"""
