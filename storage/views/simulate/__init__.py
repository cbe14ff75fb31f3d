"""Compaction without I/O: what a table's options would cost over a workload.

`workload` says what is written, `simulator` runs the compaction strategy over it, `simulation` is the result.
"""
