"""Errors of assignments to frozen objects.

A data class with `frozen` and `slots` answers an assignment to a name that it lacks with `TypeError: super(type, obj)`,
because its methods refer to the class as it was before it got slots (Python's issue 90562).
"""

from dataclasses import FrozenInstanceError
from typing import Any, NoReturn, TypeVar

_T = TypeVar("_T")


def plain_errors(cls: type[_T]) -> type[_T]:
    """Have a frozen data class answer each assignment and deletion with an AttributeError that names the attribute."""
    changed: Any = cls
    changed.__setattr__ = _refuse_assignment
    changed.__delattr__ = _refuse_deletion
    return cls


def _refuse_assignment(self: object, name: str, value: object) -> NoReturn:
    raise FrozenInstanceError(_message(self, name, "assign to"))


def _refuse_deletion(self: object, name: str) -> NoReturn:
    raise FrozenInstanceError(_message(self, name, "delete"))


def _message(frozen: object, name: str, action: str) -> str:
    return f"cannot {action} {name!r} of a {type(frozen).__name__}, which never changes"
