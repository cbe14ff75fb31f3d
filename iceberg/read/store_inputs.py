"""Metadata files as pyiceberg's readers open them, each by one request to the store."""

import io
from collections.abc import Mapping
from typing import Any, NoReturn

from pyiceberg.io import FileIO, InputFile, OutputFile

from interbed.storage.io.api import FileIO as StoreFiles
from interbed.storage.io.resolve import file_io_for


class StoreInput(InputFile):
    """A file of a store, read whole; `path` is its location as the store spells it."""

    def __init__(self, location: str, files: StoreFiles, path: str) -> None:
        super().__init__(location)
        self._files = files
        self._path = path

    def __len__(self) -> int:
        return self._files.size(self._path)

    def exists(self) -> bool:
        return self._files.exists(self._path)

    def open(self, seekable: bool = True) -> Any:
        return io.BytesIO(self._files.read_bytes(self._path))


class StoreInputs(FileIO):
    """Opens files of any store that `options`, which are ours, open. Nothing can be written."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__()
        self._options = options

    def new_input(self, location: str) -> InputFile:
        return StoreInput(location, *file_io_for(location, self._options))

    def new_output(self, location: str) -> OutputFile:
        self._refuse(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        self._refuse(location)

    def _refuse(self, location: object) -> NoReturn:
        raise TypeError(f"{location} is only read")
