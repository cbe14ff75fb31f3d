"""History of metadata. Read entries.py (values and their repository) first, then changes.py (entries of events) and
states.py (objects at a time). shown.py has their texts and JSON. What operators do with it is in undrop/.
"""
