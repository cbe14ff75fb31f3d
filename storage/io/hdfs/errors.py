"""What HDFS refuses, in one line that names the path and says what to do.

hdfs-native tells the errors of name nodes as a RuntimeError with the text `RPCError("<Java class>", "<message and
stack>")`, and what goes wrong on the way there as an OSError.
"""

import re

from interbed.storage.base.errors import StorageAccessError

_RPC_ERROR = re.compile(r'^(?:Fatal)?RPCError\("([\w.$]+)", "(.*)"\)$', re.DOTALL)
_NAMED_ERROR = re.compile(r'^(\w+)\((?:"(.*)")?\)$', re.DOTALL)

_DATA_NODES = frozenset({"DataTransferError", "ChecksumError", "BlocksNotFound", "OperationFailed"})

NOT_A_FILE = "Path is not a file"
"""How a name node begins when a directory is read; its error is that of a missing file."""


def translated(error: Exception, action: str, path: str, authority: str) -> StorageAccessError:
    """The error for whoever asked for it; `action` completes "Can't …"."""
    return StorageAccessError(f"Can't {action} {path}: {_reason(error, authority)}")


def _reason(error: Exception, authority: str) -> str:
    text = str(error)
    if isinstance(error, FileExistsError):
        return "something of that name is there."
    if isinstance(error, IsADirectoryError) or text.startswith(NOT_A_FILE):
        return "it is a directory."
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
    if message == "No NameNode hosts found":
        return (
            f"no name node of the nameservice {authority!r} is known. Set hadoop-conf-dir (or HADOOP_CONF_DIR) to the "
            f"directory with its hdfs-site.xml, or write a name node's address, hdfs://host:port/…"
        )
    if named is not None and named[1] in _DATA_NODES:
        return f"data nodes failed ({message}). See that they run and can be reached from here."
    return f"{message}."


def _refusal(kind: str, message: str, authority: str) -> str:
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
            f"{message[:1].lower()}{message[1:]}. Work as a user who may (HADOOP_USER_NAME without Kerberos, kinit "
            "with it), or have the right given by its owner."
        )
    if kind == "PathIsNotEmptyDirectoryException":
        return "the directory is not empty."
    return f"{message} ({kind})."


def _shown(authority: str) -> str:
    return authority or "fs.defaultFS"


def _first_line(text: str) -> str:
    """The first line of a text in which line ends may be written out, without a full stop."""
    line = text.partition("\n")[0].partition("\\n")[0]
    return line.replace('\\"', '"').strip().rstrip(".")
