"""Values: types, rows, predicates, Avro, errors. Knows no table.

Read `errors`, `types.data_type` and `row.values` first, then `predicate.expr` (filters), `row.binary_row` (the bytes of
rows) and `avro.records` (the files of manifests). `arrays` and `arrow_values` are the forms of columns that all layers
share, `checksums` the checksums of files of every format.
"""
