"""Ingestion: messages of other systems are read from a source, decoded, and committed to tables exactly once.

From the top: job (what a run does) > tables (one table of a run) > sources (where messages come from) and formats
(decoders of messages) > flow (values that pass between them).
"""
