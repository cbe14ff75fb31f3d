"""Reading the changes of a table as a stream: where it starts, what follows, and how far a reader has come.

Read `position` and `starting` first, then `stream_scan`, which plans snapshot after snapshot. `table_stream` iterates,
`micro_batches` plans batches for Spark. `log_stream` takes committed changes from the table's log; `eventual_stream`,
`eventual_rows`, `eventual_batches` and `log_step` take rows from an eventual log before they are committed.
"""
