"""JSON objects of metadata, and the error of invalid ones."""

from typing import Any

Document = dict[str, Any]
"""A JSON object."""


class InvalidMetadataError(Exception):
    """The metadata or their change are invalid: nothing was changed."""
