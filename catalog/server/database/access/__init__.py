"""Access in SQL: roles, members and grants (grants.py), and the owners of objects (owners.py)."""
