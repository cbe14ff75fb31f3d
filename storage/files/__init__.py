"""One file: data files and their formats, the indexes beside them, deletion vectors.

Read `format` (how data files are written and read), `file_index` (which files and rows can match a filter) and
`deletion_vectors` (which rows of a data file are deleted).
"""
