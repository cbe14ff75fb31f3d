"""From commit messages to a snapshot: exactly once, not at all, or reported as unknown.

Read `file_store_commit` first: it turns each kind of commit (append, overwrite, compaction) into parts (`changes`,
`pending_snapshot`). `publication` makes a snapshot of each part in a race with other writers (`contention`).
`changes`, `basis` and `committed` decide whether a part may be committed. `snapshot_builder` and `manifest_writer`
write its metadata. `stream_commits` adds exactly-once commits for streams.
"""
