"""Compaction of one bucket in the background.

Read `strategy` (the decision), `planner` (the decision for a table's options), `rewriter` (the work), `manager` (at
most one compaction of a bucket at a time) and `increment` (the outcome), then `changes` with `changelog` and `expiry`.
"""
