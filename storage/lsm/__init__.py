"""One bucket: sorted runs of files, how they are merged when read, and what compaction makes of them.

Read `levels` and `key_words` first, then `sort_merge` (the streaming merge) and `merge_read` (a bucket as rows). On the
way in come `write_buffer`, `spill` and `writer` (the flush). `merge_function` has the merge engines, `compact` the
compaction of a bucket, `lookup` finds older rows by key.
"""
