"""The log of a table: its changes as records in partitions, beside its files. Kafka is behind it."""
