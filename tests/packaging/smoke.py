"""Smoke test of an installation, run by its Python, in an empty folder, without access to a source tree or a JDK.

    PYTHON -I smoke.py --version 0.1.0 --jar present|absent

It needs only interbed and the standard library, writes into the current folder, prints its steps, and ends with exit
code 1 and a message at the first difference.
"""

import argparse
import importlib.metadata
import shutil
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path

SECONDS_MAX = 60
READY = "interbed catalog server listening on "


def main() -> None:
    """Run all checks in order."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--version", required=True)
    parser.add_argument("--jar", choices=("present", "absent"), required=True)
    arguments = parser.parse_args()
    for java in ("java", "javac"):
        _expect(f"{java} on the PATH", shutil.which(java), None)
    _check_package(arguments.version)
    _check_table("file system", {"warehouse": f"file:{Path.cwd() / 'lake'}"})
    _check_server()
    _check_jar(arguments.jar == "present")


def _check_package(version: str) -> None:
    import interbed

    _expect("the package's folder", Path(interbed.__file__).parents[1], Path(sysconfig.get_path("purelib")))
    _expect("interbed.__version__", interbed.__version__, version)
    _expect("the version in the metadata", importlib.metadata.version("interbed"), version)
    _expect("py.typed", (Path(interbed.__file__).parent / "py.typed").is_file(), True)
    _expect("interbed --version", _command("--version"), f"interbed, version {version}")
    print(f"interbed {version} on Python {sys.version.split()[0]}")


def _check_table(kind: str, options: dict[str, str]) -> None:
    import pyarrow as pa

    import interbed

    catalog = interbed.load_catalog("lake", **options)
    catalog.create_database("shop")
    columns: list[tuple[str, pa.DataType]] = [("id", pa.int64()), ("name", pa.string())]
    schema = pa.schema(columns)
    table = catalog.create_table("shop.orders", schema, primary_keys=["id"], options={"bucket": "1"})
    table.upsert(pa.table({"id": [1, 2, 3], "name": ["x", "y", "z"]}, schema=schema))
    table.upsert(pa.table({"id": [1], "name": ["new"]}, schema=schema))
    table.delete("id = 3")
    rows = catalog.get_table("shop.orders").scan(filter="id < 3").to_arrow()
    _expect(
        f"the table's rows ({kind})", sorted(map(tuple, map(dict.values, rows.to_pylist()))), [(1, "new"), (2, "y")]
    )
    print(f"created, changed and read a table ({kind})")


def _check_server() -> None:
    database, warehouse = Path.cwd() / "metastore.db", Path.cwd() / "warehouse"
    command = ["server", "--port", "0", "--db", f"sqlite:///{database}", "--warehouse", f"file:{warehouse}"]
    with subprocess.Popen([_script(), *command], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            _expect("the server's first line", line.startswith(READY), True)
            uri = line.removeprefix(READY).strip()
            _check_table("server", {"metastore": "hive", "uri": uri, "warehouse": f"file:{warehouse}"})
            server.send_signal(signal.SIGTERM)
            _expect("the server's exit code", server.wait(timeout=SECONDS_MAX), 0)
        finally:
            server.kill()


def _check_jar(present: bool) -> None:
    from interbed import spark_ext

    try:
        jar = spark_ext.jar_path()
    except spark_ext.SparkSetupError as error:
        _expect(f"the jar ({error})", False, present)
        _expect("the way to a jar", "built with INTERBED_BUILD_WITHOUT_JAR=1" in str(error), True)
        print("no Spark extension, as asked for")
    else:
        _expect("the jar", True, present)
        _expect("the jar in `interbed spark settings`", str(jar) in _command("spark", "settings"), True)
        print(f"the Spark extension's jar has {jar.stat().st_size:,} bytes")


def _command(*arguments: str) -> str:
    done = subprocess.run([_script(), *arguments], capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    _expect(f"the exit code of interbed {' '.join(arguments)}\n{done.stderr}", done.returncode, 0)
    return done.stdout.strip()


def _script() -> str:
    return str(Path(sysconfig.get_path("scripts")) / "interbed")


def _expect(what: str, found: object, expected: object) -> None:
    if found != expected:
        sys.exit(f"{what}: {found!r} instead of {expected!r}")


if __name__ == "__main__":
    main()
