"""The durable state of the optimizer: processes with their tasks, tables, decisions, and the lease of the scheduler.

Read `api` (the protocol), `memory` (its model), `sql` (the database's form) with `transaction` (its rows and
statements), then `opening` (where the journal of a catalog is).
"""
