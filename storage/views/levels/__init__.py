"""The LSM tree of a table as a view: figures (`view`), a tree made to be drawn (`tree`), and drawings (`drawing`)."""
