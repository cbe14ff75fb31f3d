"""Snapshots: their files, finding them, and creating the next one.

Read `snapshot` (one snapshot, its file and its creation) and `manager` (finding them) first. `tag`
names snapshots, `progress` has the snapshots that consumers still need, `expiry_mark` and `history_journal` are the
journals of expiries and of changes to the history.
"""
