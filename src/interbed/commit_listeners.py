"""What houses above storage do after the commits of tables that ask for it by an option; see docs/decisions/0063.

Storage calls it and knows nothing of these houses. This module stands above all of them, as the command line does, and
imports none.
"""

from collections.abc import Mapping

COMMIT_LISTENERS: Mapping[str, tuple[str, str]] = {
    "metadata.iceberg.storage": ("disabled", "interbed.iceberg.publish.hook:PUBLISHING"),
}
"""By option, the value with which nothing is done, and where the hook is, which is imported for any other value."""
