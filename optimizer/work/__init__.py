"""Work on the tables of a catalog: measuring, planning, carrying out, and committing.

`payload` is sent to a worker. `lake_tables` and `iceberg_tables` have both sides: the scheduler plans and commits,
workers carry out attempts.
"""
