"""Streams of a table's changes: their start, their position, and the snapshots that follow.

Read `position` first, then `stream_scan`, which plans snapshot after snapshot and iterates. `micro_batches` plans
batches for Spark. `log_stream` takes committed changes from the table's log. `eventual_stream`, `eventual_rows` and
`eventual_batches` take rows from an eventual log before they are committed.
"""
