"""The catalog server, which answers as a Hive metastore.

A request goes through thrift (edge, calls, structs) to the rules in service and to the state in database. `process`
starts all of it, `ops` watches it, `migration` copies metadata between metastores, `cli` is for operators.
"""
