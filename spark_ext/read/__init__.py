"""Scans: planned on the driver, read by workers.

Read `reader`, then `native` (the splits that Spark's own Parquet reader reads) and `streams`.
"""
