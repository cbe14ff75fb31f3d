"""Tables and views: create, read, drop (tables.py), alter (alter.py), and the rules that they keep (rules.py)."""
