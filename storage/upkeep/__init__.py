"""Jobs over a whole table: compaction, sorting, rescaling, indexes, statistics, maintenance after a commit."""
