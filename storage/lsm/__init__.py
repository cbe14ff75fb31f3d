"""One bucket: its sorted runs, the merge when they are read, and their compaction.

Read `levels` and `key_words` first, then `sort_merge` (the streaming merge), `file_read` (one data file) and
`merge_read` (a bucket as rows). Writers use `write_buffer` and `writer` (the flush). `merge_function` has the merge
engines, `compact` the compaction of a bucket. `older_rows` finds older rows by key. `column_groups` puts rows together
from files of some of their columns.
"""
