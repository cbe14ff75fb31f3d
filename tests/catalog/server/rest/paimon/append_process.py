"""A writer of interbed: `python -m tests.catalog.server.rest.paimon.append_process OPTIONS TABLE`.

OPTIONS are those of the catalog, as JSON. Each line of stdin is a command with `ids`, which are appended in one commit;
the line that answers it is written after the commit.
"""

import json
import sys

import interbed


def main() -> None:
    """Append until stdin is closed."""
    with interbed.load_catalog("writer", **json.loads(sys.argv[1])) as catalog:
        for line in sys.stdin:
            catalog.get_table(sys.argv[2]).append([{"id": number} for number in json.loads(line)["ids"]])
            print(json.dumps({"ok": None}), flush=True)


if __name__ == "__main__":
    main()
