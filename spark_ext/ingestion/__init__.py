"""Ingestion on Spark's executors, which decode the messages and write the rows.

A round reads ranges of offsets that the driver has planned: tasks decode them and partition the rows by bucket
(reading), tasks of another job write the buckets (writing), and the driver commits table by table
(procedures.ingestion_rounds). `round` is the token between the steps, `settings` has the arguments of a run.
"""
