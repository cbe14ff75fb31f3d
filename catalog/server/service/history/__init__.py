"""History of metadata. Read entries.py (values, their repository, objects at a time, entries of events) first. shown.py
has their texts and JSON. What operators do with it is in undrop/.
"""
