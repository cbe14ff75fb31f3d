"""Entry point of the container, run without one: settings from the environment, signals to the server, secrets in
files.
"""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from interbed.catalog.client.hive.client import HiveMetastoreClient
from tests.support.waits import at_most

ENTRYPOINT = Path(__file__).parents[4] / "docker" / "entrypoint.sh"


def test_it_starts_a_server_from_the_environment_and_forwards_signals(tmp_path: Path) -> None:
    process = subprocess.Popen(
        ["sh", str(ENTRYPOINT), "--lock-lease-seconds", "60"],
        cwd=tmp_path,
        env=_environment(
            INTERBED_PORT="0", INTERBED_DB=f"sqlite:///{tmp_path}/m.db", INTERBED_WAREHOUSE=f"file:{tmp_path}/w"
        ),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("interbed catalog server listening on thrift://127.0.0.1:")
        with HiveMetastoreClient(line.split()[-1]) as client:
            assert client.get_database("default").locationUri == f"file:{tmp_path}/w"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=at_most(30)) == 0
    finally:
        process.kill()
        process.wait(timeout=at_most(30))
        if process.stdout is not None:
            process.stdout.close()


def test_the_containers_probe_asks_whether_the_server_is_ready(tmp_path: Path) -> None:
    dockerfile = (ENTRYPOINT.parent / "Dockerfile").read_text()
    compose = (ENTRYPOINT.parent / "compose.yaml").read_text()
    [probe] = [json.loads(line.partition("CMD ")[2]) for line in dockerfile.splitlines() if "CMD [" in line]
    [composed] = [json.loads(line.partition("test: ")[2]) for line in compose.splitlines() if "/health/ready" in line]
    process = subprocess.Popen(
        ["sh", str(ENTRYPOINT)],
        cwd=tmp_path,
        env=_environment(INTERBED_SERVER_PORT="0", INTERBED_SERVER_HEALTH_PORT="0", INTERBED_LOG_LEVEL="INFO"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")
        port = next(found[1] for line in lines if (found := re.search(r"http://[\d.]+:(\d+)/health", line)))
        for command in (probe, [part.replace("9084", port) for part in composed[1:]]):
            assert _exit_code([sys.executable, *command[1:]], INTERBED_SERVER_HEALTH_PORT=port) == 0
        (tmp_path / "warehouse").rename(tmp_path / "gone")
        assert _exit_code([sys.executable, *probe[1:]], INTERBED_SERVER_HEALTH_PORT=port) != 0
    finally:
        process.kill()
        process.communicate(timeout=at_most(30))


def test_a_password_file_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    missing = tmp_path / "no-such-file"
    result = subprocess.run(
        ["sh", str(ENTRYPOINT)],
        cwd=tmp_path,
        env=_environment(INTERBED_DB_PASSWORD_FILE=str(missing)),
        capture_output=True,
        text=True,
        timeout=at_most(60),
        check=False,
    )
    assert result.returncode == 1
    assert str(missing) in result.stderr


def test_the_password_is_not_passed_in_arguments(tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("secret\n")
    command = tmp_path / "interbed"
    command.write_text('#!/bin/sh\necho "arguments: $*"\necho "password: $PGPASSWORD"\n')
    command.chmod(0o755)
    result = subprocess.run(
        ["sh", str(ENTRYPOINT)],
        cwd=tmp_path,
        env={**_environment(INTERBED_DB_PASSWORD_FILE=str(password)), "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=at_most(60),
        check=True,
    )
    assert "password: secret" in result.stdout
    assert "secret" not in result.stdout.splitlines()[0]


def _exit_code(command: list[str], **settings: str) -> int:
    return subprocess.run(
        command, env=_environment(**settings), capture_output=True, timeout=at_most(60), check=False
    ).returncode


def _environment(**settings: str) -> dict[str, str]:
    # The command lies next to the interpreter, whether or not the environment is active.
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, **settings}
