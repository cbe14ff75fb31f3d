"""Schemas of tables: their files, their versions and what may change."""
