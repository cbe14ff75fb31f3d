"""Commits to Iceberg tables: which files a snapshot replaces, conflict checks, and the compare-and-swap.

Read `home` (where metadata files are, and optimistic concurrency), `replacement` (the replaced and the new files, and
conflicts), then `replace` (the commit, and the manifests of the new snapshot).
"""
