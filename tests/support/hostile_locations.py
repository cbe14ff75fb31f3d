"""Locations that could make a server delete foreign files, and a directory tree that must survive them."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PRECIOUS = "precious"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectedTree:
    """Directory with a warehouse, a database, a working directory, foreign files, and links between them."""

    root: Path

    @property
    def warehouse(self) -> Path:
        """Directory of the warehouse."""
        return self.root / "wh"

    @property
    def database(self) -> Path:
        """SQLite file of the server."""
        return self.root / "state" / "metastore.db"

    @property
    def working_directory(self) -> Path:
        """Working directory of the server."""
        return self.root / "work" / "inner"

    def make(self) -> None:
        """Create everything but the database."""
        for directory in (self.warehouse, self.database.parent, self.working_directory, self.root / PRECIOUS / "deep"):
            directory.mkdir(parents=True)
        for file in (
            self.root / PRECIOUS / "file",
            self.root / PRECIOUS / "deep" / "file",
            self.working_directory / "file",
            self.root / "work" / "file",
            self.database.parent / "file",
        ):
            file.write_text("precious")
        for name, to in (
            ("link", self.warehouse),
            ("up", self.root),
            ("loop", self.root / "loop"),
            ("to_precious", self.root / PRECIOUS),
            ("wh/inside", self.root / PRECIOUS),
            ("work/state", self.database.parent),
        ):
            (self.root / name).symlink_to(to)

    def entries(self) -> dict[str, str]:
        """Return all entries by path: the content of files and the targets of links."""
        found = {}
        for directory, names, files in os.walk(self.root):
            for name in (*names, *files):
                path = Path(directory, name)
                if path.is_symlink():
                    found[str(path)] = f"-> {path.readlink()}"
                elif path.is_dir():
                    found[str(path)] = "directory"
                elif self.database.name not in name:
                    found[str(path)] = path.read_bytes().decode("latin-1")
        return found


def hostile_locations(precious: ProtectedTree, registered: tuple[str, ...]) -> list[str]:
    """Return several hundred distinct locations; `registered` are directories of other objects, below the root."""
    targets = [
        str(precious.root),
        str(precious.root.parent),
        str(precious.warehouse),
        str(precious.database.parent),
        str(precious.database),
        str(precious.working_directory),
        str(precious.root / "work"),
        str(precious.root / PRECIOUS),
        str(precious.root / PRECIOUS / "deep"),
        str(precious.warehouse / "inside"),
        str(precious.warehouse / "inside" / "deep"),
        *(str(precious.root / each) for each in registered),
    ]
    found = [each for target in targets for each in _spellings(precious, target)]
    return list(dict.fromkeys([*found, *_others(precious)]))


def _spellings(precious: ProtectedTree, path: str) -> Iterator[str]:
    yield path
    for scheme in ("file:", "FILE:", "File://", "file:////", "file://localhost", "FILE://LOCALHOST", "file://host"):
        yield scheme + path
    yield f"file:/{path}"
    yield path.replace("/", "//")
    yield f"file:{path}///"
    yield f"{path}/."
    yield f"{path}/x/.."
    yield f"file:{path}/x/../"
    yield f"file:{os.path.dirname(path)}/./{os.path.basename(path)}"
    yield f"file:{path}/../{os.path.basename(path)}"
    yield f"file:/proc/self/root{path}"
    yield f"/proc/self/root{path}"
    yield f"file:/proc/self/cwd/../..{path}"
    yield path.replace("/", "%2F")
    yield f"file:{path}/%2e%2e"
    yield f"file:{path}/x%2F.."
    yield f"file:{path}\n"
    yield f"file:{path}\0"
    yield f"s3a://KEY:SECRET@bucket{path}"
    yield f"hdfs:{path.lstrip('/')}"
    yield os.path.relpath(path, precious.working_directory)
    inside = os.path.relpath(path, precious.root)
    if not inside.startswith(".."):
        yield f"file:{precious.root}/up/{inside}"
        yield f"{precious.root}/up/up/{inside}"
    below = os.path.relpath(path, precious.warehouse)
    if not below.startswith(".."):
        yield f"file:{precious.root}/link/{below}"
    if path.startswith(str(precious.root / PRECIOUS)):
        yield f"file:{precious.root}/to_precious{path.removeprefix(str(precious.root / PRECIOUS))}"


def _others(precious: ProtectedTree) -> Iterator[str]:
    yield from (
        "..",
        ".",
        "../..",
        "file:..",
        "file:.",
        "file:x/y",
        "x/y",
        "~",
        "file:~",
        "file:",
        "file://",
        "file:///",
        "/",
    )
    yield from ("/..", "/.", "//", "file:/..", "/tmp", "file:/tmp/", "/home", "/proc", "/sys", "/dev", "/proc/self/cwd")
    yield from ("file:/proc/self/cwd", "file:/proc/self/fd", "/proc/self/root", "/dev/fd", os.path.expanduser("~"))
    yield from ("ftp://host/x", "ftp:/x", "http://host/x", "jdbc:x", "nosuch:///x", ":/x", "://x", "s3a://", "s3a:///x")
    yield from ("s3a://b:c/d@e", "abfs://c:k@a/x", "hdfs://u:p@host/x", "C:\\warehouse", "\\\\host\\share", "file:\\x")
    yield f"file:{precious.root}/loop/x"
    yield "/" + "/".join("a" * 1500)
    yield f"file:{precious.root}/" + "/".join("a" * 240)
    yield f"{precious.root}/" + "a" * 256
    yield f"{precious.root}/" + "a" * 5000
