"""Directories of objects: the locations that clients give, and what may be deleted, emptied and moved.

locations.py validates and compares them, guard.py checks before a deletion, deletions.py deletes. remote_files.py is
the part for object stores and HDFS.
"""
