"""A catalog over a Hive metastore, and the client of the metastore.

Start with catalog.py and registration.py (how a table is registered), then entries.py, tables.py and publisher.py (how
a commit is published and its partitions are registered). databases.py has databases and views. client.py calls the
metastore over connection.py and transports.py; settings.py reads options and hive-site.xml. renames.py and repair.py
keep files and metastore consistent. lock.py is the lock of a table in the metastore, commit_lock.py the lock that a
commit or a change takes. iceberg_home.py has Iceberg's tables.
"""
