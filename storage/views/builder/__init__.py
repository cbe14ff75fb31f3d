"""pypaimon's builders on interbed's engine: code written for pypaimon runs after its import is changed.

`read`, `stream_read` and `write` are the builders; `predicate` makes filters; `rows_read` reads system tables.
`managers` and `explain` have the other objects of pypaimon's tables.
"""
