"""Files whose operations sometimes take long, as on a paused machine or a store that does not answer.

Meanwhile other writers commit, and snapshots that the stalled operation has read expire.
"""

import random
import threading
import time
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from interbed.storage.io.api import FileIO, FileStatus, FileSystemCapabilities, WrappedFileIO

RATE = 0.02
LEAST_SECONDS, MOST_SECONDS = 0.002, 0.2


class StallingFiles(WrappedFileIO):
    """FileIO around another one, with its capabilities or with the given ones; threads may share it.

    `stalls` counts the long operations. Set `is_calm` to stop them.
    """

    def __init__(
        self, inner: FileIO, chance: random.Random, capabilities: FileSystemCapabilities | None = None
    ) -> None:
        super().__init__(inner)
        self.capabilities = capabilities or inner.capabilities
        self.stalls = 0
        self.is_calm = False
        self._chance = chance
        self._guard = threading.Lock()

    def _step(self) -> None:
        with self._guard:
            if self.is_calm or self._chance.random() >= RATE:
                return
            self.stalls += 1
            # Mostly short stalls: the longest take as long as several commits of other writers.
            seconds = LEAST_SECONDS * (MOST_SECONDS / LEAST_SECONDS) ** self._chance.random()
        time.sleep(seconds)

    def read_bytes(self, path: str) -> bytes:
        self._step()
        return super().read_bytes(path)

    def open_input(self, path: str) -> pa.NativeFile:
        self._step()
        return super().open_input(path)

    def open_output(self, path: str) -> Any:
        self._step()
        return super().open_output(path)

    def create_exclusive(self, path: str, content: bytes) -> bool:
        self._step()
        return super().create_exclusive(path, content)

    def overwrite(self, path: str, content: bytes, *, durable: bool = True) -> None:
        self._step()
        super().overwrite(path, content, durable=durable)

    def exists(self, path: str) -> bool:
        self._step()
        return super().exists(path)

    def list(self, path: str) -> list[FileStatus]:
        found = super().list(path)
        # The stall makes the listing stale.
        self._step()
        return found

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        self._step()
        return super().delete(path, recursive=recursive)

    def delete_quietly(self, paths: Iterable[str]) -> None:
        for path in paths:
            self._step()
            super().delete_quietly([path])

    def rename(self, source: str, target: str) -> bool:
        self._step()
        return super().rename(source, target)
