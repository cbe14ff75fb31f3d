"""Dropped objects that can be put back. Read service/dropped.py (values and their repository) first, then journal.py
(moves of their directories), drops.py (the drop) and undrops.py (putting back, purging, expiry).
"""
