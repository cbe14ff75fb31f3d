"""Simulation of compaction without I/O: the cost of a table's options over a workload.

`workload` generates the rows, `simulator` runs the compaction strategy over them, `simulation` is the result.
"""
