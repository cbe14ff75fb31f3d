"""The values that pass from sources to tables."""
