"""Snapshots: their files, finding them, and making the next one."""
