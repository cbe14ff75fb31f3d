"""The interface between the jar and Python: known by a digest of planner.thrift, which the jar carries.

A jar of another version would pass over what it does not know in an answer, and return wrong rows instead of an error.
So the JVM says which interface it speaks: to a planner by its first call, to workers by an environment variable.
"""

import hashlib
from functools import cache
from pathlib import Path

import interbed.thrift_idl
from interbed.storage.base.errors import NotSupportedError

VARIABLE = "INTERBED_INTERFACE"

_DIGITS = 16


@cache
def interface_version() -> str:
    """The interface that this Python speaks; hatch_build.py puts the same into the jar."""
    (folder,) = interbed.thrift_idl.__path__
    return hashlib.sha256((Path(folder) / "planner.thrift").read_bytes()).hexdigest()[:_DIGITS]


def check_interface(version: str | None) -> None:
    """Raise NotSupportedError when a JVM speaks another interface; None is one that does not say."""
    if version is not None and version != interface_version():
        raise NotSupportedError(
            f"The jar of interbed in this Spark application (interface {version}) and interbed in Python (interface "
            f"{interface_version()}) are of different versions. Install the same interbed on every node and for a "
            "remote planner, take the jar that `interbed spark settings` names, and start the application anew."
        )
