"""Changes of other systems become tables: messages are read from a source, decoded, and committed exactly once.

From the top: job (what a run does) > tables (one table of it) > sources (where messages come from) and formats (what
they say) > flow (values that pass between them).
"""
