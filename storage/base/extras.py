"""Libraries that interbed does not bring along: what to install is said in one line."""

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from interbed.storage.base.errors import MissingExtraError

EXTRAS = {
    "confluent_kafka": "kafka",
    "datasketches": "sketches",
    "duckdb": "duckdb",
    "hdfs_native": "hdfs",
    "matplotlib": "plot",
    "obstore": "stores",
    "pandas": "pandas",
    "polars": "polars",
    "psycopg": "postgres",
    "pyiceberg": "iceberg",
    "pyspark": "spark",
}
"""Library -> the extra of interbed that installs it."""


def load_extra(module: str, *, needed_by: str) -> Any:
    """The module, which is loaded when it is needed first.

    `needed_by` begins the message: "to_pandas". Raises MissingExtraError when its library is not installed, or not
    whole; what a library that is there lacks itself is an ImportError as ever.
    """
    library = module.partition(".")[0]
    try:
        return import_module(module)
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) and (error.name or library).partition(".")[0] != library:
            raise
        raise missing_extra(library, needed_by=needed_by) from None


def is_installed(library: str) -> bool:
    """Whether a library is there; it is not loaded."""
    # A module that is ruled out stands as None among those loaded, for which find_spec raises.
    return sys.modules[library] is not None if library in sys.modules else find_spec(library) is not None


def missing_extra(library: str, *, needed_by: str) -> MissingExtraError:
    """The error that names a library which is not installed, and the way to it."""
    return MissingExtraError(f"{needed_by} needs {library}: pip install 'interbed[{EXTRAS[library]}]'")
