"""The module of a format's reader is imported in the background, once, even when libraries are missing."""

import subprocess
import sys

LOADING = """
import sys, threading
from interbed.storage.files.format import readers
from interbed.storage.io.api import LOCAL_CAPABILITIES, OBJECT_STORE_CAPABILITIES

begun = []
start = threading.Thread.start

def note(thread):
    begun.append(thread)
    start(thread)

threading.Thread.start = note

class Files:
    capabilities = OBJECT_STORE_CAPABILITIES

def load(name):
    begun.clear()
    readers.begin_loading(Files, name)
    for thread in begun:
        thread.join()
    return len(begun)

assert "pyarrow.parquet" not in sys.modules
assert load("text") == 0
Files.capabilities = LOCAL_CAPABILITIES
assert load("Parquet") == 0
Files.capabilities = OBJECT_STORE_CAPABILITIES
assert load("Parquet") == 1
assert {"pyarrow.parquet", "interbed.storage.files.format.parquet"} <= sys.modules.keys()
assert load("parquet") == 0
sys.modules["pyarrow.orc"] = None
assert load("orc") == 1
"""


def test_a_reader_is_loaded_by_a_thread_and_only_once() -> None:
    done = subprocess.run([sys.executable, "-c", LOADING], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
