"""From a snapshot to splits."""
