"""Scheduled queries and statistics of runs in SQL."""
