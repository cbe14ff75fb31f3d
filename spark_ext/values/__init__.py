"""Types, values and predicates on their way between Spark and storage.

Read `spark_types`, then `predicates`, `partition_values` and `defaults`.
"""
