"""The write path of a table, from Arrow batches to commit messages.

Start with `table_write` (the writer of a table) and `bucket_writer` (the writer of a bucket). `bucket_strategy` and
`bucket/` choose the buckets of rows, by which `bucket.route` splits them, and `bucket_writer` makes data files of them.
`commit_message` is the result. `deleted_rows` deletes rows of append tables, `row_statements` says which statements a
table takes, `sort/` sorts append tables.
"""
