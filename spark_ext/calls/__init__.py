"""The calls of planner.thrift, by subject; `interbed.spark_ext.process.planner` combines them.

Read `catalogs` (open catalogs, the table of a reference or a handle, and namespaces), `tables` and `jobs`.
"""
