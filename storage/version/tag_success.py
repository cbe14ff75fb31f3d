"""Success files of tags: `tag/tag-success-file/<name>_SUCCESS`, with `tag.create-success-file`.

For jobs that wait for a tag. JSON of when the tag was first and last made, in milliseconds. Source: paimon-core's
SuccessFileTagCallback.
"""

import json
import time
from collections.abc import Callable

from interbed.storage.meta.store import TableStore

_DIRECTORY = "tag-success-file"
_SUFFIX = "_SUCCESS"


def note_created(store: TableStore, name: str, clock: Callable[[], float] = time.time) -> None:
    """Write the tag's success file, if the table wants one."""
    if store.options.tag_create_success_file:
        write_success_file(store, _path(store, name), int(clock() * 1000))


def note_deleted(store: TableStore, name: str) -> None:
    """Delete the tag's success file."""
    if store.options.tag_create_success_file:
        store.file_io.delete_quietly([_path(store, name)])


def write_success_file(store: TableStore, path: str, now_millis: int) -> None:
    """Write or renew a success file: it keeps the time when it was first written."""
    created = now_millis
    if store.file_io.exists(path):
        try:
            created = int(json.loads(store.file_io.read_bytes(path))["creationTime"])
        except (ValueError, KeyError, TypeError):
            # Another tool's file counts by its existence, not by its content.
            created = now_millis
    content = json.dumps({"creationTime": created, "modificationTime": now_millis}, indent=2)
    store.file_io.overwrite(path, content.encode())


def _path(store: TableStore, name: str) -> str:
    directory = store.paths.tag(name).rpartition("/")[0]
    return f"{directory}/{_DIRECTORY}/{name}{_SUFFIX}"
