"""What becomes of several records of one key."""
