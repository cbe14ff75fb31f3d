"""A client without keys of the store, in an environment of its own: `signing_program.py URI TOKEN`.

It writes, reads and deletes by pyiceberg's FsspecFileIO, whose requests the server signs, and writes what it found as
JSON.
"""

import json
import sys
from collections.abc import Callable

import pyarrow as pa
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import SignError

uri, token = sys.argv[1:]
catalog = RestCatalog("lake", uri=uri, token=token, **{"header.X-Iceberg-Access-Delegation": "remote-signing"})
rows = pa.table({"id": pa.array([1, 2], pa.int64())})
catalog.create_namespace("signed")
for name in ("orders", "orders_old"):
    catalog.create_table(f"signed.{name}", rows.schema).append(rows)
table = catalog.load_table("signed.orders")
table.append(rows)
table.delete("id = 1")
location = table.location()
files = table.io

# More than the parts of one upload.
big = f"{location}/data/big"
with files.new_output(big).create() as output:
    for _ in range(12):
        output.write(b"x" * (1 << 20))


def refused(call: Callable[[], object]) -> str | None:
    """Return the text of the refusal of a request."""
    try:
        call()
    except (SignError, PermissionError, OSError) as error:
        return f"{type(error).__name__}: {error}"
    return None


other = catalog.load_table("signed.orders_old").metadata_location
print(
    json.dumps(
        {
            "files": type(files).__name__,
            "rows": sorted(table.scan().to_arrow()["id"].to_pylist()),
            "big": len(files.new_input(big)),
            "exists": [files.new_input(each).exists() for each in (big, f"{location}/data/none")],
            "read": refused(lambda: files.new_input(other).open().read()),
            "written": refused(lambda: files.new_output(f"{location}_old/new").create().close()),
            "deleted": refused(lambda: files.delete(other)),
            "bulk": refused(lambda: files.delete(big)),
        }
    )
)
