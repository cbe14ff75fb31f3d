"""Connections to the databases: how threads share a SQLite file, and what PostgreSQL's driver is told."""
