"""Which tables have changed: by the notification log of a metastore, or by the snapshot hints of directories."""
