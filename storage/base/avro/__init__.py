"""Avro as Paimon writes it: records of manifests, and rows of data files column by column.

Read `records` (the container of blocks, and the files of records) and `codecs`, then `encode` and `decode` for rows.
"""
