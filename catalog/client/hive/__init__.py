"""A catalog over a Hive metastore, and the client that it speaks through.

Start with catalog.py and registration.py (how a table is registered), then entries.py, tables.py and publisher.py (how
a commit is published). client.py calls the metastore over connection.py; settings.py reads options and hive-site.xml.
renames.py, repair.py and change_mark.py keep files and metastore together, locking/ excludes other writers.
"""
