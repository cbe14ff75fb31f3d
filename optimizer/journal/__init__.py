"""The durable state of the optimizer: processes with their tasks, tables, decisions, and the lease of the scheduler.

Read `api` (the protocol, and its model in memory), `transaction` (rows and statements of the database), then `sql` (the
journal in a database, and which database a catalog has for it).
"""
