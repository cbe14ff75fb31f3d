"""Commit listeners that packages above storage define, by the option that asks for one; see docs/decisions/0063.

Storage calls them and knows nothing of these packages. This module is above all of them, as the command line is, and
imports none.
"""

from collections.abc import Mapping

COMMIT_LISTENERS: Mapping[str, tuple[str, str]] = {
    "metadata.iceberg.storage": ("disabled", "interbed.iceberg.publish.publication:PUBLISHING"),
}
"""By option, the value with which nothing is done, and where the listener is, which is imported for any other value."""
