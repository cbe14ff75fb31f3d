"""Directories of objects: the locations that clients give, and what may be deleted, emptied and moved."""
