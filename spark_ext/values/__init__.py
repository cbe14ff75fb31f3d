"""Types, values and predicates on their way between Spark and storage."""
