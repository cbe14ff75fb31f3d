"""From Arrow batches to commit messages."""
