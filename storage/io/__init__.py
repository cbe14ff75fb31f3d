"""Where bytes live: a small protocol over file systems, and its implementations.

Read `api` (the protocol) and `resolve` (from a path to its FileIO), then `local`, `stores`, `hdfs` and `object_store`
(the implementations), `wrapped`, `cached` and `ahead` (a cache and read-ahead before a store). `deleting`, `at_once`
and `pending` are for many files at once.
"""
