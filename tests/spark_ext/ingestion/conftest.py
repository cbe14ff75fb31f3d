"""A Kafka broker, for ingestion on Spark."""

from tests.ingest.conftest import kafka

__all__ = ["kafka"]
