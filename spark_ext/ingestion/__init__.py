"""Ingestion whose messages are decoded and whose rows are written by Spark's executors.

A round reads ranges of offsets that the driver has planned: tasks decode them and part the rows by bucket (reading),
tasks of another job write the buckets (writing), and the driver commits table by table (procedures.ingestion). `round`
is the token between the steps, `settings` the arguments of a run.
"""
