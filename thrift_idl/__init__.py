"""Thrift interface definitions and the Python packages generated from them.

`hive_metastore.thrift` is the interface of the catalog server (`make idl` regenerates the package `hive_metastore`).
Generated packages are committed, so that neither users nor CI need the Thrift compiler; they are not linted or typed.
"""
