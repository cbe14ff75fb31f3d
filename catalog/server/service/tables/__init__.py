"""Tables and views: create, read, drop (tables.py), alter (alter.py), and their validation (rules.py)."""
