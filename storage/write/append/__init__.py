"""Append tables: rows are added to files, and deletion vectors take single ones away."""
