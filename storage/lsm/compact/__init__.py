"""Compaction of one bucket in the background.

Read `strategy` (the decision), `planner` (the decision by a table's options), `rewriter` (the work and its outcome) and
`manager` (at most one compaction of a bucket at a time), then `changes` (changelogs, deletion vectors) and `expiry`.
"""
