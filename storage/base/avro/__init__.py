"""Avro as Paimon writes it: records of manifests, and rows of data files column by column.

Read `blocks` (the container and its compression) and `records`, then `encode` and `decode` for rows.
"""
