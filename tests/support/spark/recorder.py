"""Recorder of the bytes that leave a Spark driver for its executors: closures, tasks, broadcasts, properties of jobs.

It is a plugin of Spark, tests/peers/spark_recorder, which takes the place of the driver's serializers.
"""

import re
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path

import pyspark

from tests.support.peers.cache import built_once, fingerprint, run

PEER = Path(__file__).resolve().parents[2] / "peers" / "spark_recorder"
# Base64 in JSON, as handles and tokens of commits are in tasks.
_ENCODED = re.compile(rb'"([A-Za-z0-9+/]{32,}={0,2})"')


def recorder_settings(directory: Path) -> dict[str, str]:
    """Return the settings of a session that records into the directory."""
    sources = sorted((PEER / "java").rglob("*.java"))
    jars = Path(pyspark.__path__[0]) / "jars"

    def build(target: Path) -> None:
        # -proc:none: the annotation processors in some jars would only warn.
        run("javac", "-proc:none", "-nowarn", "-d", target, "-cp", f"{jars}/*", *sources)

    classes = built_once(f"spark-recorder-{fingerprint(*sources, text=pyspark.__version__)}", build)
    return {
        "spark.driver.extraClassPath": str(classes),
        "spark.plugins": "interbed.recorder.RecordingPlugin",
        "spark.recorder.directory": str(directory),
    }


def recorded(directory: Path) -> bytes:
    """Return all recorded bytes, followed by what they contain in base64, to any depth."""
    return b"\n".join(_decoded((directory / "bytes").read_bytes()))


def _decoded(content: bytes) -> Iterator[bytes]:
    yield content
    for found in _ENCODED.finditer(content):
        if len(found[1]) % 4 == 0:
            yield from _decoded(b64decode(found[1]))
