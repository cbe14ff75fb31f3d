"""Which tables have changed: by the notification log of a metastore, and by the snapshot hints of their directories.

Read `files_watch` (with the rounds in which directories are looked at), then `hive_watch`.
"""
