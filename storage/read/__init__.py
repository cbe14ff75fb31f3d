"""From splits to Arrow batches.

Read `query` first: a query plans splits and hands them to `table_read`, which merges and filters them, in threads
(`parallel`). `columns` and `positions` (deletion vectors) serve all reads. `change_read` reads changes, `point`
single keys; `pushdown` answers counts and top-n queries. `arrow_rows` has the forms of the result, `duckdb_scan`,
`polars_scan` and `html` make some of them.
"""
