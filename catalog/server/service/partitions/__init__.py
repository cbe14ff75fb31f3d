"""Partitions: reading them (reads.py), then dropping, truncating (drops.py) and exchanging them (exchange.py).

changes.py adds and alters partitions and joins the others in one service.
"""
