"""History of metadata. Read entries.py (values, their repository, and objects at a time) first, then changes.py
(entries of events). shown.py has their texts and JSON. What operators do with it is in undrop/.
"""
