"""Access to objects of the metastore: privileges, roles and grants, and the authorizers that decide.

Read objects.py (privileges, what they are on, roles, grants and policies as values, and the decisions), then guard.py
(where the services ask), secured.py (what their methods need), granting.py (the rules of Hive's model), builtin.py (the
built-in authorizer), and policies.py (row filters and column masks).
"""
