"""Jobs over a whole table: compaction, sorting, rescaling, indexes, statistics.

Read `compact_table` first: it compacts buckets (with `append_compact`, which also sorts, for tables without levels and
for postponed buckets). `compact_tasks` splits the same work for other processes, and `job_files` cleans up after them.
`rescale`, `rewrite_indexes`, `changed_rows`, `column_update` and `analyze` rewrite rows, columns, indexes or
statistics. `bucket_health` and `health` measure what is due.
"""
