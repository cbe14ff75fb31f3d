"""Scans: planned on the driver, read by workers."""
