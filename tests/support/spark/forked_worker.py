"""Workers of Spark's tasks without Spark, forked as by Spark's daemon: from a process that has loaded their modules."""

import os
import socket
from collections.abc import Mapping
from io import BufferedReader, BufferedWriter, FileIO
from multiprocessing import get_context
from multiprocessing.context import ForkServerProcess

_CONTEXT = get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        "interbed.spark_ext.process.planner",
        "interbed.spark_ext.process.worker",
        "interbed.spark_ext.read.reader",
        "interbed.spark_ext.write.writer",
    ]
)


def forked_worker(theirs: socket.socket, environment: Mapping[str, str]) -> ForkServerProcess:
    """Start a worker that serves the requests of a socket, with more variables of the environment."""
    process = _CONTEXT.Process(target=_serve, args=(theirs, dict(environment)), daemon=True)
    process.start()
    return process


def _serve(connection: socket.socket, environment: Mapping[str, str]) -> None:
    from interbed.spark_ext.process.worker import main

    os.environ.update(environment)
    descriptor = connection.detach()
    main(BufferedReader(FileIO(os.dup(descriptor), "rb")), BufferedWriter(FileIO(descriptor, "wb")))
