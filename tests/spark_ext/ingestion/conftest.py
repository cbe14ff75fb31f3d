"""A schema registry, for ingestion on Spark from the Kafka broker of the session."""

from tests.ingest.conftest import registry

__all__ = ["registry"]
