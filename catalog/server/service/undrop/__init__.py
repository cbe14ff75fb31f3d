"""Dropped objects that can be put back, and entries put back to an older state. Read drops.py (the drop, and the trash)
and undrops.py (putting back, purging, expiry); then histories.py (the history as operators read it, and entries put
back). Their directories move by service/moves.py.
"""
