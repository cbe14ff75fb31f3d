"""The client library: databases and tables by name, in a file system or in a Hive metastore, and the commands.

Read api.py, then filesystem.py and hive/catalog.py, which both stand on staging.py and files/.
"""
