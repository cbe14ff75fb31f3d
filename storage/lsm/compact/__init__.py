"""Compaction of one bucket in the background.

Read `strategy` (the decision), `rewriter` (the work and its outcome) and `manager` (the decision by a table's options,
and at most one compaction of a bucket at a time), then `changes` (changelogs, deletion vectors) and `expiry`.
"""
