"""Filters: their form, their text, their effect on rows and on statistics."""
