"""Tables that changes are written to: their names, columns, rows and commits."""
