"""Types, values and predicates, converted between Spark and storage.

Read `spark_types`, then `predicates`, `partition_values` and `defaults`.
"""
