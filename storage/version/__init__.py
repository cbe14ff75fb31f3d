"""Versions of a table: tags, branches, rollback, expiry, and the deletion of their files.

Read `references` (the histories that share a table's files, and the files that a snapshot refers to) first. `expire`
deletes old snapshots, and `maintenance` what is due after a commit; `tags`, `branch` and `rollback` change which
snapshots are kept. `orphans` and `fsck` clean up and check; `orphans` and `references` limit every deletion to the
files that the table made itself.
"""
