"""Access to objects of the metastore: privileges, roles and grants, and the authorizers that decide.

Read objects.py (privileges and what they are on), then authorizer.py (the decisions), guard.py (where the services
ask), grants.py and rights.py (the model of Hive), builtin.py (the built-in authorizer).
"""
