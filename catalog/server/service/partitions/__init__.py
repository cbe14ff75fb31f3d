"""Partitions: reading them (reads.py), then dropping, truncating and exchanging them (drops.py).

changes.py adds and alters partitions and joins the others in one service.
"""
