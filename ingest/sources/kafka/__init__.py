"""Kafka as a source, and as the place for messages that can't be taken."""
