"""The files of a table's store, as pyiceberg's readers and writers of manifests open them.

What is written stays in memory until `flush`, so that no half of a file is ever there.
"""

import io
from types import TracebackType
from typing import Any

from pyiceberg.io import FileIO, InputFile, OutputFile

from interbed.iceberg.read.store_inputs import StoreInput
from interbed.storage.base.fileio.api import FileIO as StoreFiles
from interbed.storage.base.fileio.resolve import normalize_path
from interbed.storage.base.fileio.writing import write_file


class StoreIO(FileIO):
    """Opens the files of a store, however their paths spell its scheme; `written` are those that were flushed, as it
    takes them.
    """

    def __init__(self, files: StoreFiles) -> None:
        super().__init__()
        self.files = files
        self.written: list[str] = []
        self._waiting: dict[str, _Content] = {}

    def new_input(self, location: str) -> InputFile:
        return StoreInput(location, self.files, normalize_path(location))

    def new_output(self, location: str) -> OutputFile:
        content = self._waiting[location] = _Content()
        return _Output(self, location, content)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        self.files.delete(normalize_path(location if isinstance(location, str) else location.location))

    def flush(self) -> None:
        """Write what waits; raises StorageAccessError naming the file."""
        while self._waiting:
            location = next(iter(self._waiting))
            path = normalize_path(location)
            write_file(self.files, path, self._waiting[location].getvalue())
            del self._waiting[location]
            self.written.append(path)


class _Content(io.BytesIO):
    """Bytes that outlive their being closed."""

    def close(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


class _Output(OutputFile):
    def __init__(self, store: StoreIO, location: str, content: _Content) -> None:
        super().__init__(location)
        self._store = store
        self._content = content

    def __len__(self) -> int:
        return len(self._content.getvalue())

    def exists(self) -> bool:
        return self._store.files.exists(normalize_path(self.location))

    def to_input_file(self) -> InputFile:
        return self._store.new_input(self.location)

    def create(self, overwrite: bool = False) -> Any:
        return self._content
