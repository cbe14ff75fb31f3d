"""Where bytes live: a small protocol over file systems, and its implementations."""
