"""Sorting a table's rows so that reads skip more files: by columns, or along a curve through several of them."""
