"""Access in SQL: roles, members and grants (grants.py), the owners of objects (owners.py), policies of tables
(policies.py), and delegation tokens (delegation.py).
"""
