"""Rows and columns in the forms that people and other programs write them."""
