"""Work on the tables of a catalog: measuring, planning, carrying out, and committing.

`lake_tables` (with the payloads that are sent to workers) and `iceberg_tables` have both sides: the scheduler plans and
commits, workers carry out attempts.
"""
