"""The values that pass from sources to tables: messages, changes, identities of source tables."""
