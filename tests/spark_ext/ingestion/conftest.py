"""A schema registry, for ingestion on Spark from the Kafka broker of these tests."""

from tests.ingest.conftest import registry

__all__ = ["registry"]
