"""Access to objects of the metastore: privileges, roles and grants, and the authorizers that decide.

Read objects.py (privileges, what they are on, and the decisions), then guard.py (where the services ask), secured.py
(what their methods need), grants.py and granting.py (the model of Hive), builtin.py (the built-in authorizer), and
policies.py (row filters and column masks).
"""
