"""Statements of `interbed sql` that change rows: what they say, and their changes as one commit."""
