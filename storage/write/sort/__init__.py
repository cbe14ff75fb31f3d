"""Sorting of the rows of append tables, so that reads skip more files: by columns, or along a space-filling curve."""
