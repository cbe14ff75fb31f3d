"""The block cache on local disk: a lookup returns the stored block or nothing, the size is bounded, and directories are
shared.
"""

import multiprocessing
import os
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interbed.storage.io.cached.blocks import COUNTER, BlockFiles, CacheCounter
from tests.support.examples import examples
from tests.support.waits import at_most

KEY = "a" * 40


class FakeClock:
    """A clock that advances by a second with each reading."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


def bytes_in(directory: Path) -> int:
    return sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())


def content_of(blocks: BlockFiles, key: str, number: int = 0) -> bytes | None:
    found = blocks.get(key, str(number))
    return None if found is None else bytes(found.content)


def test_a_block_is_returned_with_its_note(tmp_path: Path) -> None:
    blocks = BlockFiles(f"{tmp_path}/new", 1 << 20)
    assert blocks.get(KEY, "0") is None
    blocks.put(KEY, "0", b"note", b"content")
    blocks.put(KEY, "head", b"", b"")
    found, head = blocks.get(KEY, "0"), blocks.get(KEY, "head")
    assert found is not None
    assert head is not None
    assert (found.note, bytes(found.content), bytes(head.content)) == (b"note", b"content", b"")
    assert content_of(BlockFiles(f"{tmp_path}/new", 1 << 20), KEY) == b"content"
    assert not list(tmp_path.rglob("*.tmp"))


def test_a_block_under_the_name_of_another_is_discarded(tmp_path: Path) -> None:
    blocks = BlockFiles(f"{tmp_path}", 1 << 20)
    blocks.put(KEY, "0", b"", b"one")
    blocks.put(KEY, "1", b"", b"two")
    first, second = sorted(each for each in tmp_path.rglob("*") if each.is_file())
    first.write_bytes(second.read_bytes())
    assert content_of(blocks, KEY, 0) is None
    assert content_of(blocks, KEY, 1) == b"two"


@settings(deadline=None, max_examples=examples(100))
@given(st.data())
def test_a_torn_or_damaged_block_is_detected_and_discarded(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    directory = tmp_path_factory.mktemp("cache")
    blocks = BlockFiles(str(directory), 1 << 20)
    blocks.put(KEY, "0", b"note", bytes(range(64)))
    (file,) = (each for each in directory.rglob("*") if each.is_file())
    whole = bytearray(file.read_bytes())
    if data.draw(st.booleans()):
        whole = whole[: data.draw(st.integers(0, len(whole) - 1))]
    else:
        whole[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    file.write_bytes(whole)
    before = COUNTER.counts.damaged
    assert blocks.get(KEY, "0") is None
    assert not file.exists()
    assert COUNTER.counts.damaged == before + 1
    assert not blocks.is_off


def test_the_least_recently_used_blocks_are_evicted(tmp_path: Path) -> None:
    clock = FakeClock()
    blocks = BlockFiles(str(tmp_path), 10_000, clock=clock)
    keys = [f"{number:040d}" for number in range(8)]
    for key in keys:
        blocks.put(key, "0", b"", bytes(1000))
    clock.now += 100
    assert content_of(blocks, keys[0]) is not None
    before = COUNTER.counts.evicted
    for number in range(8, 12):
        blocks.put(f"{number:040d}", "0", b"", bytes(1000))
        assert bytes_in(tmp_path) <= 10_000
    assert content_of(blocks, keys[0]) is not None
    assert content_of(blocks, keys[1]) is None
    assert COUNTER.counts.evicted > before


def test_blocks_of_other_processes_count_and_their_unfinished_files_are_deleted(tmp_path: Path) -> None:
    clock = FakeClock()
    mine, other = (BlockFiles(str(tmp_path), 100_000, clock=clock) for _ in range(2))
    unfinished = tmp_path / "aa" / "left.tmp"
    mine.put(KEY, "0", b"", bytes(10))
    unfinished.write_bytes(bytes(10))
    os.utime(unfinished, (0, 0))
    for number in range(100):
        writer = mine if number % 2 else other
        writer.put(f"{number:040d}", "0", b"", bytes(5000))
        # Each process checks the size again after it has written a sixteenth of the limit.
        assert bytes_in(tmp_path) <= 100_000 * 18 // 16
    assert not unfinished.exists()


def test_a_block_larger_than_the_cache_is_not_kept(tmp_path: Path) -> None:
    blocks = BlockFiles(str(tmp_path), 100)
    blocks.put(KEY, "0", b"", bytes(200))
    assert content_of(blocks, KEY) is None
    assert not blocks.is_off


def test_a_disk_error_disables_the_cache_and_fails_no_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    blocks = BlockFiles(str(tmp_path), 1 << 20)
    blocks.put(KEY, "0", b"", b"kept")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", full)
        blocks.put(KEY, "1", b"", b"not kept")
    assert blocks.is_off
    assert "No space left on device" in caplog.text
    blocks.put(KEY, "1", b"", b"not kept")
    assert (content_of(blocks, KEY, 1), content_of(blocks, KEY)) == (None, b"kept")
    assert not list(tmp_path.rglob("*.tmp"))
    file = tmp_path / "file"
    file.write_text("")
    below = BlockFiles(f"{file}/x", 1 << 20)
    below.put(KEY, "0", b"", b"c")
    assert below.is_off


def _use(directory: str, seed: int) -> None:
    blocks = BlockFiles(directory, 200_000)
    for number in range(300):
        key = f"{(number * 7 + seed) % 97:040d}"
        found = blocks.get(key, "0")
        if found is not None:
            assert bytes(found.content) == key.encode() * 100
        blocks.put(key, "0", b"", key.encode() * 100)
    assert not blocks.is_off


def test_processes_share_a_directory(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_use, args=(str(tmp_path), seed)) for seed in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(at_most(60))
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert bytes_in(tmp_path) <= 200_000 * (16 + 3) // 16


def test_statistics_are_correct_with_several_threads() -> None:
    counter = CacheCounter()
    assert counter.counts.hit_rate == 0.0

    def count() -> None:
        for _ in range(1000):
            counter.add(hits=3, misses=1)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(at_most(60))
    assert (counter.counts.hits, counter.counts.hit_rate) == (12_000, 0.75)
