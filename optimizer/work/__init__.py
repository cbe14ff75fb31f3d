"""Work on tables of a catalog: how it is measured and planned, what workers do, and what is committed.

`payload` is sent to a worker. `lake_tables` and `iceberg_tables` have both sides: the scheduler plans and commits,
workers carry out attempts.
"""
