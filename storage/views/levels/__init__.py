"""The LSM tree of a table as a view: figures, a drawing in the terminal, and a picture."""
