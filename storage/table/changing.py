"""Methods of Table that change it: each says when the table is gone, whatever error that led to."""

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Protocol, TypeVar

if TYPE_CHECKING:
    from interbed.storage.meta.store import TableStore


class _HasStore(Protocol):
    @property
    def store(self) -> "TableStore": ...


_Table = TypeVar("_Table", bound=_HasStore)
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def changes_table(
    method: Callable[Concatenate[_Table, _Arguments], _Result],
) -> Callable[Concatenate[_Table, _Arguments], _Result]:
    """A method that raises CommitFailedError when it fails because the table was dropped or renamed meanwhile."""

    @wraps(method)
    def changing(table: _Table, /, *arguments: _Arguments.args, **named: _Arguments.kwargs) -> _Result:
        with table.store.changing():
            return method(table, *arguments, **named)

    return changing
