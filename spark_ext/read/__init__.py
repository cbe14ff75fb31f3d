"""Scans, planned on the driver and read by workers.

Read `reader`, then `native` (the splits that Spark's own Parquet reader reads) and `streams`.
"""
