"""Work on tables of a catalog: how it is measured and planned, what workers do, and what is committed.

`payload` is what travels to a worker, `lake_tables` the scheduler's side, `carry_out` the worker's.
"""
