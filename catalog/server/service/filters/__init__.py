"""Filters of partitions and tables: the languages in which clients write them, and the tree that the store evaluates.

Start with tree.py, then expression.py, whose parser is grammar.py; that has filters of tables as well.
"""
