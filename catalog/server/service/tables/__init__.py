"""Tables and views: create, read, alter, drop, and the rules that they keep."""
