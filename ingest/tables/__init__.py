"""Tables that changes go to: their names, columns, and commits."""
