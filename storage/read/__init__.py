"""From splits to Arrow batches.

Read `query` first: a query plans splits and hands them to `table_read`, which merges and filters them, in threads.
`columns` (with positions and deletion vectors) serves all reads. `change_read` reads changes. `point_lookup` finds rows
by primary key without a scan, with `file_lookup` for one file. `pushdown` answers counts and top-n queries.
`arrow_rows` has the forms of the result; `duckdb_scan` and `polars_scan` make two of them.
"""
