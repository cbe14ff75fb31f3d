"""Rows by primary key, without a scan."""
