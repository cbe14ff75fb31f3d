"""Compaction of one bucket: which runs, what becomes of them, carried out in the background."""
