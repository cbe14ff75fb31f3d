"""Statements in the language of a source, as far as they matter to the tables of a lake."""
