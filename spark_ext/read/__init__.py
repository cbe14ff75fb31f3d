"""Scans, planned on the driver and read by workers.

Read `reader`, then `native` (the splits that Spark's own Parquet reader reads), `task` (also of tables with row filters
and column masks) and `streams`.
"""
