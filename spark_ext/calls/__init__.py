"""The calls of planner.thrift, by subject; `interbed.spark_ext.process.planner` combines them.

Read `base` (open catalogs, and the table of a reference or a handle), `tables` and `jobs`, then `namespaces` and
`procedures`.
"""
