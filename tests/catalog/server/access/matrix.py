"""Outcomes of calls by the callers of a guarded metastore, as letters.

m  the same answer as about an object that does not exist: missing, or not about the object
d  denied
s  the answer to a call that does not name the table shows it
a  anything further: carried out, or refused for another reason than a lack of privileges
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from thrift.Thrift import TMessageType

from interbed.catalog.server.process.main import dispatcher_for
from interbed.catalog.server.service.errors import AccessDeniedError
from interbed.catalog.server.thrift.edge.codec import BinaryCodec
from interbed.catalog.server.thrift.edge.dispatch import CallAnswer, Dispatcher, Request
from tests.catalog.server.access.guarded import CALLERS, GuardedMetastore, guarded_metastore, session_of
from tests.catalog.server.access.thrift_calls import arguments_of, names_for

SHOWN = (b"orders", b"totals", b"\x00\x00\x00\x05sales")
"""Names in answers to calls about other objects."""

OF_OTHERS = (b"boss", b"hr.db")
"""What only answers about the objects of another owner have in them."""

_CODEC = BinaryCodec()


def restore(pristine: Path, root: Path) -> None:
    """Put a directory back to what it was."""
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(pristine, root, symlinks=True)


def rows_of(table: Mapping[str, str]) -> dict[str, str]:
    """Return the expected letters of each name of a table by letters."""
    rows: dict[str, str] = {}
    for letters, names in table.items():
        for name in names.split():
            assert name not in rows, f"{name} has two rows"
            rows[name] = letters
    return rows


@dataclass
class ThriftMatrix:
    """Calls of methods, each on a metastore as it was."""

    pristine: Path
    root: Path

    def letter(self, method: str, name: str) -> str:
        """Return the outcome of a method for one caller."""
        restore(self.pristine, self.root)
        with guarded_metastore(self.root, filled=False) as guarded:
            return self._letter(dispatcher_for(guarded.metastore), guarded, method, name)

    def letters(self, method: str) -> str:
        """Return the outcomes of a method for all callers, from that with the fewest privileges on."""
        found, left = "", list(CALLERS)
        while left:
            restore(self.pristine, self.root)
            with guarded_metastore(self.root, filled=False) as guarded:
                dispatcher = dispatcher_for(guarded.metastore)
                while left:
                    letter = self._letter(dispatcher, guarded, method, left.pop(0))
                    found += letter
                    if letter == "a" and not method.startswith("get_"):
                        # The next caller is to find the metastore as it was.
                        break
        return found

    def _letter(self, dispatcher: Dispatcher, guarded: GuardedMetastore, method: str, name: str) -> str:
        present, absent = names_for(method)
        # The object that exists comes first: the other call may create one.
        answer, missing = (_called(dispatcher, guarded, method, each, name) for each in (present, absent))
        if name != CALLERS[-1]:
            for each in (missing, answer):
                found = [word for word in OF_OTHERS if word in each.reply]
                assert not found, f"{method} shows {found} to {name}: {each.reply!r}"
        if isinstance(answer.refusal, AccessDeniedError):
            return "d"
        if any(word in missing.reply for word in SHOWN):
            return "s"
        same = answer.reply.replace(present.encode(), absent.encode()) == missing.reply
        return "m" if same else "a"


def _called(dispatcher: Dispatcher, guarded: GuardedMetastore, method: str, table: str, name: str) -> CallAnswer:
    arguments = arguments_of(method, table)
    for structure in (getattr(arguments, "new_tbl", None), getattr(getattr(arguments, "req", None), "table", None)):
        if structure is not None and structure.sd is not None and structure.sd.location:
            structure.sd.location = structure.sd.location.replace("/WAREHOUSE", f"{guarded.root}/warehouse")
    request = Request(
        codec=_CODEC,
        name=method,
        kind=TMessageType.CALL,
        sequence=1,
        method=dispatcher._methods[method],  # pyright: ignore[reportPrivateUsage]
        arguments=arguments,
    )
    return dispatcher.call(request, session_of(name))
