"""Partitions: what may be added, altered, dropped, exchanged, truncated, and what can be asked for."""
