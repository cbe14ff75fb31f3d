"""Avro as Paimon writes it: records of manifests, and rows of data files column by column."""
