"""Libraries that interbed does not bring along: what to install is said in one line."""

from importlib import import_module
from typing import Any

from interbed.storage.base.errors import MissingExtraError

EXTRAS = {
    "confluent_kafka": "kafka",
    "datasketches": "sketches",
    "duckdb": "duckdb",
    "matplotlib": "plot",
    "pandas": "pandas",
    "polars": "polars",
    "psycopg": "postgres",
    "pyspark": "spark",
}
"""Library -> the extra of interbed that installs it."""


def load_extra(module: str, *, needed_by: str) -> Any:
    """The module, which is loaded when it is needed first.

    `needed_by` begins the message: "to_pandas". Raises MissingExtraError when its library is not installed; an error
    inside of a library that is installed stays what it is.
    """
    library = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] != library:
            raise
        raise MissingExtraError(f"{needed_by} needs {library}: pip install 'interbed[{EXTRAS[library]}]'") from None
