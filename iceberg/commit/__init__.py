"""Commits to Iceberg tables: which files a snapshot replaces, conflict checks, and the compare-and-swap.

Read `home` (where metadata files are, and optimistic concurrency), then `replace` (the replaced and the new files,
their conflicts, the commit, and the manifests of the new snapshot).
"""
