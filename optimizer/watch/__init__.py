"""Which tables have changed: by the notification log of a metastore, and by the snapshot hints of their directories.

`files_watch` and `hive_watch` answer, `sweep` says which directories are looked at in which round.
"""
