"""Locks of tables: the metastore's own (lock.py), and the one that a commit or a change takes (commit_lock.py)."""
