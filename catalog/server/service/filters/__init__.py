"""Filters of partitions and tables: languages in which clients write them, and the tree that the store evaluates."""
