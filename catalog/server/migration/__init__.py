"""Migration: copy, compare and export the metadata of metastores. Directories and files of tables are never touched.

Start with record.py (an object) and selection.py (the selected objects). source.py reads a metastore over
connection.py, target.py writes one; copy.py, compare.py and jsonl.py do the three commands of command.py.
"""
