"""A catalog over a Hive metastore, and the client of the metastore.

Start with catalog.py and registration.py (how a table is registered), then entries.py, tables.py and publisher.py (how
a commit is published and its partitions are registered). entries.py also renames tables. databases.py has databases and
views. client.py calls the metastore over connection.py and transports.py; extended_calls.py has its calls about access
and dropped tables. settings.py reads options and hive-site.xml. repair.py keeps files and metastore consistent. lock.py
is the lock of a table in the metastore, commit_lock.py the lock that a commit or a change takes. iceberg_home.py has
Iceberg's tables.
"""
