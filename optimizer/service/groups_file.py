"""The file of groups, read again when it changes; while it can't be read, the groups stay as they were."""

import logging
import os
from collections.abc import Mapping
from pathlib import Path

from interbed.optimizer.flow.group import ResourceGroup, read_groups
from interbed.storage.base.errors import InvalidInputError

_log = logging.getLogger(__name__)

_Stamp = tuple[int, int, int]


class GroupsFile:
    """The groups of a file. Raises InvalidInputError when the file can't be read at first."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp = _stamp(path)
        self._groups: Mapping[str, ResourceGroup] = read_groups(path)

    def current(self) -> Mapping[str, ResourceGroup]:
        """The groups now."""
        stamp = _stamp(self._path)
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._groups = read_groups(self._path)
            except InvalidInputError as error:
                _log.error("The groups stay as they were: %s", error)
            else:
                _log.info("There are other groups now: %s", ", ".join(sorted(self._groups)))
        return self._groups


class FixedGroups:
    """Groups that do not change."""

    def __init__(self, groups: Mapping[str, ResourceGroup]) -> None:
        self._groups = groups

    def current(self) -> Mapping[str, ResourceGroup]:
        """The groups."""
        return self._groups


def _stamp(path: Path) -> _Stamp | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
