"""Thrift interface definitions and the code generated from them.

`hive_metastore.thrift` is the interface of the catalog server, `planner.thrift` that of the Spark extension. `make idl`
regenerates the Python packages `hive_metastore` and `planner`, and in `java/` the classes of `planner.thrift` for the
extension's jar (an installed interbed has them in the jar only). Generated code is committed, so that neither users nor
CI need the Thrift compiler; it is not linted or typed.
"""
