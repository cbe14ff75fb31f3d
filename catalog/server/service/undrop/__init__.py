"""Dropped objects that can be put back, and entries put back to an older state. Read service/dropped.py (values and
their repository) first, then journal.py (moves of their directories), drops.py (the drop) and undrops.py (putting back,
purging, expiry); then histories.py (the history as operators read it, and entries put back).
"""
