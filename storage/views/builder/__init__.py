"""pypaimon's builders on interbed's engine: code written for pypaimon runs after its import is changed.

`read`, `stream_read` and `write` are the builders; `rows_read` makes filters and reads system tables.
`managers` and `explain` have the other objects of pypaimon's tables.
"""
