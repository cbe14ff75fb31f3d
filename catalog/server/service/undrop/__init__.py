"""Dropped objects that can be put back. Read objects.py (values and their repository), journal.py (moves of their
directories), drops.py (the drop), then undrops.py (putting back, purging, expiry).
"""
