"""The names of what a table and its branches make in their directories, and the files of a branch's directory.

Those of interbed's files and of Java Paimon's; `storage.meta.paths` says what each is.
"""

import re
from collections.abc import Iterable
from functools import partial

from interbed.storage.base.fileio.api import FileIO
from interbed.storage.base.fileio.at_once import asked_at_once

UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
HIDDEN = re.compile(r"\..*\.tmp")
CHECKSUM = re.compile(r"\.(.+)\.crc")
"""Hadoop's client writes one beside each file of a local file system."""
BUCKET = re.compile(r"bucket-(?:\d+|postpone)")
PARTITION = re.compile(r"[^=]+=.*", re.DOTALL)
DONE = "_SUCCESS"

_FILES = {
    "schema": r"schema-\d+|\.journal|\.commit-turn",
    "snapshot": r"snapshot-\d+|LATEST|EARLIEST|\.commit-turn|\.expiring|\.expired-files-.*|\.write-.*",
    "changelog": r"changelog-\d+|LATEST|EARLIEST",
    "tag": r"tag-.+|\.guard-.+",
    "tag/tag-success-file": r".+_SUCCESS",
    "consumer": r"consumer-.+",
    "epoch": r"epoch-.+",
    "position": r"position-.+",
    "log": r"LATEST",
    "manifest": rf"(?:manifest|manifest-list|index-manifest)-{UUID}-\d+",
    "index": rf"index-.*{UUID}-\d+",
    "statistics": rf"stat-{UUID}-\d+",
    "service": r"service-.+",
    "metadata": rf"v\d+\.metadata\.json|version-hint\.text|retire-pending|snap-.+\.avro|{UUID}-m\d+\.avro|.+\.puffin",
}
OF_TABLE = {name: re.compile(pattern, re.DOTALL) for name, pattern in _FILES.items()}
_SHARED = frozenset({"manifest", "index", "statistics", "service", "metadata"})
OF_BRANCH = {name: pattern for name, pattern in OF_TABLE.items() if name not in _SHARED}
BRANCHES = re.compile(r"branch-.+|\.new-.+|\.deleted-.+", re.DOTALL)
IN_TABLE = frozenset({".dropped", ".metastore-change", DONE})


def branch_files(file_io: FileIO, directory: str) -> tuple[list[str], list[str], list[str]]:
    """The files, the directories and what is foreign in the directory of a branch; raises StorageAccessError."""
    files: list[str] = []
    directories: list[str] = []
    foreign: list[str] = []
    level = [directory]
    while level:
        listed = asked_at_once(file_io, [partial(file_io.list, path) for path in level])
        level = []
        for entry in (entry for some in listed for entry in some):
            relative = entry.path[len(directory) + 1 :]
            above, _, name = relative.rpartition("/")
            if entry.is_directory and not entry.is_link and relative in OF_BRANCH:
                directories.append(entry.path)
                level.append(entry.path)
            elif not (entry.is_link or entry.is_directory) and (
                HIDDEN.fullmatch(name) or (above in OF_BRANCH and OF_BRANCH[above].fullmatch(name))
            ):
                files.append(entry.path)
            else:
                foreign.append(entry.path)
    return files, directories, foreign


def shortened(paths: Iterable[str], directory: str, most: int = 3) -> str:
    """The first of the paths below a directory, for a message: "'a', 'b' and 7 more"."""
    names = sorted(path.removeprefix(f"{directory.rstrip('/')}/") for path in paths)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + more
