"""One bucket: sorted runs of files, how they are merged when read, and what compaction makes of them."""
