"""What the processes of a server tell one another without a message: a piece of memory that all of them map.

The first byte is the number of workers that serve, which the parent writes. After it each worker has a place for a
text, what is wrong with it, which its companion reads; texts end with a NUL.
"""

import mmap

TEXT_BYTES = 512
"""The place of a worker; a longer text is cut."""

_COUNT_MAX = 255


class SharedBoard:
    """The memory; made before the processes are forked. `workers` is their number."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._memory = mmap.mmap(-1, 1 + workers * TEXT_BYTES)

    @property
    def serving(self) -> int:
        """How many workers serve, at most 255."""
        return self._memory[0]

    @serving.setter
    def serving(self, count: int) -> None:
        self._memory[0] = min(_COUNT_MAX, count)

    def write(self, worker: int, text: str) -> None:
        """What is wrong with a worker, counted from 1; nothing if the text is empty."""
        start = 1 + (worker - 1) * TEXT_BYTES
        line = text.encode()[: TEXT_BYTES - 1]
        self._memory[start : start + TEXT_BYTES] = line.ljust(TEXT_BYTES, b"\0")

    def problem(self) -> str | None:
        """What is wrong with the workers, None if nothing is."""
        problems = []
        for worker in range(1, self._workers + 1):
            start = 1 + (worker - 1) * TEXT_BYTES
            # A text that is cut, or is being written, may end within a character.
            text = self._memory[start : start + TEXT_BYTES].partition(b"\0")[0].decode(errors="replace")
            if text:
                problems.append(f"worker {worker}: {text}")
        return "; ".join(problems) or None
