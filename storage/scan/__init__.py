"""From a snapshot to splits: which snapshot is read, which of its files are needed, and how they are split into tasks.

Read `scan` first: `starting_point` chooses the snapshot, `live_files` reads its manifests (`manifest_reader`) with the
scan's filters (`partition_filter`, `pruning`), and `split` packs the files into splits.
`change_plan` plans reads of changes; `explain` shows a plan; `summary` answers from metadata alone. `support` refuses
tables that this version can't read or write.
"""
