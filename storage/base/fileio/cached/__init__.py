"""A cache on local disk of files in stores that never change."""
