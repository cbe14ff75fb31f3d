"""What the processes of a server tell one another without a message: a piece of memory that all of them map.

First come the number of workers that serve, and the time when the parent last turned its loop. After them each worker
has a place for its vital signs, which its loop writes every second, and for a text, what is wrong with it. The
companion reads them; texts end with a NUL.
"""

import mmap
import struct
import time

from interbed.catalog.server.ops.vital_signs import VitalSigns, current_signs

TEXT_BYTES = 512
"""The place of a worker's text; a longer one is cut."""

_COUNT_MAX = 255
_SIGNS = struct.Struct("=ddq")
_HEAD = struct.Struct("=Bxxxxxxxd")
_PARENT_AT = struct.Struct("=d")
_PARENT_OFFSET = 8
_PLACE_BYTES = _SIGNS.size + TEXT_BYTES


class WorkerPlace:
    """The part of the memory that is a worker's, to be called with what is wrong with it."""

    def __init__(self, memory: mmap.mmap, start: int) -> None:
        self._memory = memory
        self._start = start

    def __call__(self, text: str) -> None:
        """What is wrong with the worker; nothing if the text is empty."""
        start = self._start + _SIGNS.size
        line = text.encode(errors="replace")[: TEXT_BYTES - 1]
        self._memory[start : start + TEXT_BYTES] = line.ljust(TEXT_BYTES, b"\0")

    def beat(self, wait_seconds: float) -> None:
        """The loop of the worker turns; its requests have waited this long without one being begun."""
        signs = current_signs(wait_seconds)
        _SIGNS.pack_into(self._memory, self._start, signs.at, signs.wait_seconds, signs.handles_left)

    def clear(self) -> None:
        """Forget what is known of the worker that had this place."""
        self("")
        _SIGNS.pack_into(self._memory, self._start, 0.0, 0.0, 0)

    def problem(self, now: float) -> str | None:
        """What is wrong with the worker, None if nothing is."""
        start = self._start + _SIGNS.size
        # A text that is cut, or is being written, may end within a character.
        text = self._memory[start : start + TEXT_BYTES].partition(b"\0")[0].decode(errors="replace")
        if text:
            return text
        at, wait_seconds, left = _SIGNS.unpack_from(self._memory, self._start)
        # Before its first beat a worker does not serve, and is not counted.
        return VitalSigns(at=at, wait_seconds=wait_seconds, handles_left=left).problem(now) if at else None


class SharedBoard:
    """The memory; made before the processes are forked. `workers` is their number."""

    def __init__(self, workers: int) -> None:
        self._memory = mmap.mmap(-1, _HEAD.size + workers * _PLACE_BYTES)
        self._places = [WorkerPlace(self._memory, _HEAD.size + each * _PLACE_BYTES) for each in range(workers)]

    @property
    def serving(self) -> int:
        """How many workers serve, at most 255."""
        return self._memory[0]

    @serving.setter
    def serving(self, count: int) -> None:
        self._memory[0] = min(_COUNT_MAX, count)

    def place(self, worker: int) -> WorkerPlace:
        """The place of a worker, counted from 1."""
        return self._places[worker - 1]

    def write(self, worker: int, text: str) -> None:
        """What is wrong with a worker, counted from 1; nothing if the text is empty."""
        self.place(worker)(text)

    def parent_beat(self) -> None:
        """The loop of the parent turns."""
        _PARENT_AT.pack_into(self._memory, _PARENT_OFFSET, time.monotonic())

    def problem(self) -> str | None:
        """What is wrong with the workers, or with the parent, None if nothing is."""
        now = time.monotonic()
        problems = []
        for worker, place in enumerate(self._places, start=1):
            text = place.problem(now)
            if text is not None:
                problems.append(f"worker {worker}: {text}")
        (at,) = _PARENT_AT.unpack_from(self._memory, _PARENT_OFFSET)
        parent = VitalSigns(at=at, wait_seconds=0.0, handles_left=-1).problem(now) if at else None
        if parent is not None:
            problems.append(f"the process that accepts connections {parent}")
        return "; ".join(problems) or None
