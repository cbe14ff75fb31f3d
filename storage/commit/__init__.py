"""From commit messages to a snapshot."""
