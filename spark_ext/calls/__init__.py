"""The calls of planner.thrift, by subject; `interbed.spark_ext.process.planner` puts them together.

Read `base` (open catalogs, from a reference or a handle to a table), `tables` and `jobs`, then `namespaces`
and `procedures`.
"""
