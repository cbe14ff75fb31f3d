"""Roles and grants of a catalog's server: grants.py has values and the calls of catalogs, thrift_calls.py Hive's."""
