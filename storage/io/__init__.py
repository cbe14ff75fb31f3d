"""File systems: the FileIO protocol, and its implementations.

Read `api` (the protocol) and `resolve` (from a path to its FileIO), then `local`, `stores`, `hdfs` and `pyarrow_files`
(the implementations), `cached` and `prefetch` (in front of remote ones). `parallel` is for many files.
"""
