"""Compaction without I/O: what a table's options would cost over a workload."""
