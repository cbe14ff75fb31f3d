"""Writes: tasks write files, one commit on the driver shows them."""
