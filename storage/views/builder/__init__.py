"""pypaimon's builders on interbed's engine: code written for pypaimon runs after its import is changed.

`read`, `stream_read` and `write` are the builders; `predicate` makes filters; `rows_read` reads system tables.
`managers`, `options` and `explain` have what else pypaimon's tables offer.
"""
