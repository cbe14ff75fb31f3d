"""Kafka as a source of messages, and as the dead letter queue."""
