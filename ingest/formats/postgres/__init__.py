"""Values of PostgreSQL, as its logical replication sends them."""
