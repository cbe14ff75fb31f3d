"""Scans: planned on the driver, read by workers.

Read `reader`, then `reports` (what Spark's optimizer gets), `native` (what Spark's own Parquet reader reads) and
`streams`.
"""
