"""pypaimon's builders on interbed's engine: code written for pypaimon runs after its import is changed.

`read`, `stream_read` and `write` are the builders; `rows_read` makes filters, explains plans and reads
system tables. `managers` has the other objects of pypaimon's tables.
"""
