"""Files of HDFS that are being written, and errors in one line that names the path and says what to do.

hdfs-native raises the errors of name nodes as a RuntimeError with the text `RPCError("<Java class>", "<message and
stack>")`, and errors of the connection as an OSError.
"""

import io
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from interbed.storage.base.errors import StorageAccessError

if TYPE_CHECKING:
    from hdfs_native import FileWriter


WRITE_BYTES = 1 << 20
"""Bytes that are collected before they are sent: each write goes through Python, Rust and the network once."""


class HdfsSteps(Protocol):
    """Steps of the file system that an open file needs."""

    def discard(self, staged: str) -> None:
        """Delete a hidden file that does not get its name."""
        ...

    def finish(self, staged: str, path: str) -> None:
        """Rename a hidden file to its own name, which may be taken."""
        ...

    def write_error(self, path: str, error: Exception) -> OSError:
        """Return the error to raise for one that occurred while a file was written."""
        ...


class HdfsOutput(io.RawIOBase):
    """File that is being written under its hidden name."""

    def __init__(self, home: HdfsSteps, path: str, staged: str, writer: "FileWriter") -> None:
        self._home = home
        self._path = path
        self._staged = staged
        self._writer = writer
        self._position = 0
        self._pending: list[bytes] = []
        self._pending_bytes = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def write(self, content: Any) -> int:
        if self.closed:
            raise ValueError("write to closed file")
        given = bytes(content)
        self._pending.append(given)
        self._pending_bytes += len(given)
        self._position += len(given)
        if self._pending_bytes >= WRITE_BYTES:
            self._send()
        return len(given)

    def close(self) -> None:
        """Send the rest and give the file its name; after an error the file is deleted."""
        if self.closed:
            return
        super().close()
        try:
            self._send()
            self._step(self._writer.close)
            self._home.finish(self._staged, self._path)
        except BaseException:
            self._home.discard(self._staged)
            raise

    def abort(self) -> None:
        """Close it without creating a file."""
        if not self.closed:
            super().close()
            self._home.discard(self._staged)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def __del__(self) -> None:
        # An output that was not closed is not complete.
        self.abort()

    def _send(self) -> None:
        if self._pending:
            content = self._pending[0] if len(self._pending) == 1 else b"".join(self._pending)
            self._pending, self._pending_bytes = [], 0
            self._step(lambda: self._writer.write(content))

    def _step(self, step: Callable[[], object]) -> None:
        try:
            step()
        except (OSError, RuntimeError) as error:
            raise self._home.write_error(self._path, error) from error


_RPC_ERROR = re.compile(r'^(?:Fatal)?RPCError\("([\w.$]+)", "(.*)"\)$', re.DOTALL)
_NAMED_ERROR = re.compile(r'^(\w+)\((?:"(.*)")?\)$', re.DOTALL)

_DATA_NODES = frozenset({"DataTransferError", "ChecksumError", "BlocksNotFound", "OperationFailed"})

_HUNG_UP = "RPC listener disconnected"
"""Text of the client when a name node ends the connection: one with Kerberos ends those without."""

NOT_A_FILE = "Path is not a file"
"""Beginning of the message when a directory is read; the class of the error is that of a missing file."""


def translated(error: Exception, action: str, path: str, authority: str) -> StorageAccessError:
    """Return the error to raise; `action` completes "Can't …"."""
    return StorageAccessError(f"Can't {action} {path}: {_reason(error, authority)}")


def _reason(error: Exception, authority: str) -> str:
    text = str(error)
    if isinstance(error, FileExistsError):
        return "something of that name is there."
    if isinstance(error, IsADirectoryError) or text.startswith(NOT_A_FILE):
        return "it is a directory."
    if isinstance(error, OSError) and text == _HUNG_UP:
        return (
            f"the name node of {_shown(authority)} closes the connection. See that it runs; if it asks for Kerberos, "
            "set hadoop.security.authentication to kerberos, or hadoop-conf-dir to the directory of its core-site.xml."
        )
    if isinstance(error, OSError):
        return (
            f"the name node of {_shown(authority)} does not answer ({_first_line(text)}). See that it runs, and that "
            "its host and port, or the hdfs-site.xml of hadoop-conf-dir, are right."
        )
    of_name_node = _RPC_ERROR.match(text)
    if of_name_node is not None:
        return _refusal(of_name_node[1].rpartition(".")[2], _first_line(of_name_node[2]), authority)
    named = _NAMED_ERROR.match(text)
    message = _first_line(named[2] or named[1]) if named is not None else _first_line(text)
    if text.startswith("GSSAPIError("):
        return (
            f"there is no ticket of Kerberos for the name node ({_ticket_fault(text)}). Run kinit, or give the options "
            "'security.kerberos.login.keytab' and 'security.kerberos.login.principal'."
        )
    if message == "No NameNode hosts found":
        return (
            f"no name node of the nameservice {authority!r} is known. Set hadoop-conf-dir (or HADOOP_CONF_DIR) to the "
            f"directory with its hdfs-site.xml, or write a name node's address, hdfs://host:port/…"
        )
    if named is not None and named[1] in _DATA_NODES:
        return (
            f"data nodes failed ({message}). See that they run and can be reached from here; with Kerberos also that "
            "dfs.data.transfer.protection is set as in their hdfs-site.xml."
        )
    return f"{message}."


def _refusal(kind: str, message: str, authority: str) -> str:
    if kind == "SaslException":
        return (
            f"the name node of {_shown(authority)} does not accept the ticket of Kerberos ({message}). Check the "
            "principal of the ticket, the clocks, and that the name node's principal is that of its host."
        )
    if kind == "StandbyException":
        return (
            f"the name node {_shown(authority)} is a standby. Name the nameservice in place of host and port, and set "
            "hadoop-conf-dir to the directory with its hdfs-site.xml, so that the active one is found."
        )
    if kind == "SafeModeException":
        return (
            f"the name node of {_shown(authority)} is in safe mode. It leaves it when enough blocks are reported, or "
            "at `hdfs dfsadmin -safemode leave`."
        )
    if "not a directory" in message:
        return f"{message.partition(' (')[0]} is not a directory."
    if kind == "AccessControlException":
        return (
            f"{message[:1].lower()}{message[1:]}. Work as a user with that right (HADOOP_USER_NAME without "
            "Kerberos, kinit with it), or let the owner grant it."
        )
    if kind == "PathIsNotEmptyDirectoryException":
        return "the directory is not empty."
    return f"{message} ({kind})."


def _ticket_fault(text: str) -> str:
    """Return the part of an error of GSSAPI that Kerberos's library has written."""
    message = text.rpartition(', "')[2].removesuffix('")')
    return _first_line(message.partition(": ")[2] or message)


def _shown(authority: str) -> str:
    return authority or "fs.defaultFS"


def _first_line(text: str) -> str:
    """Return the first line of a text, whose line ends may be escaped, without a full stop."""
    line = text.partition("\n")[0].partition("\\n")[0]
    return line.replace('\\"', '"').strip().rstrip(".")
