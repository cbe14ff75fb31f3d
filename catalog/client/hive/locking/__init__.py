"""The locks of tables that a Hive metastore knows: the metastore's own, and of commits to a local directory."""
