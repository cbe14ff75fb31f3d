"""A Kafka broker and a schema registry, for ingestion on Spark."""

from tests.ingest.conftest import kafka, registry

__all__ = ["kafka", "registry"]
