"""The directories of databases and tables: metadata files beside tables, creation, and deletion of directories.

Start with table_files.py (the directory of a table), then database_directory.py (properties and deletion of a database,
and staging directories, where new tables are filled) and dropped_directories.py (dropped objects that are kept, and
files of a table in other directories).
"""
