"""Access in SQL: roles, members and grants (grants.py), the owners of objects (owners.py), and policies of tables
(policies.py).
"""
