"""Types, values and predicates, converted between Spark and storage.

Read `spark_types`, then `predicates` (with values of partitions) and `defaults`.
"""
