"""The directories of databases and tables: what is kept beside the tables, and how whole directories come and go.

Start with table_files.py (a table's directory), then staging_directory.py (where new tables are filled),
dropped_database.py, database_file.py (properties of a database) and outside.py (what a table has elsewhere).
"""
