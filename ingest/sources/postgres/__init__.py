"""One database of PostgreSQL, read through a logical replication slot."""
