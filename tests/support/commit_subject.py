"""Check the subject of a commit: `area: imperative summary`, at most 72 characters.

python -m tests.support.commit_subject FILE    checks the message in the file, as git's hook commit-msg calls it
"""

import re
import sys
from pathlib import Path

LENGTH = 72

AREA = re.compile(r"[a-z][a-z0-9_-]*(?:, [a-z][a-z0-9_-]*)*: \S")

GIT_SUBJECTS = ("fixup! ", "squash! ", "amend! ", "Merge ", "Revert ")
"""Beginnings that git writes by itself."""


def faults(message: str) -> list[str]:
    """Return what is wrong with the message, in words for its author."""
    lines = [line for line in message.splitlines() if not line.startswith("#")]
    subject = lines[0] if lines else ""
    if subject.startswith(GIT_SUBJECTS):
        return []
    found = []
    if len(subject) > LENGTH:
        found.append(f"the subject has {len(subject)} characters; the limit is {LENGTH}")
    if not AREA.match(subject):
        found.append("the subject does not begin with an area: write `area: imperative summary`")
    if subject.endswith("."):
        found.append("the subject ends with a full stop; leave it out")
    if len(lines) > 1 and lines[1].strip():
        found.append("the second line is not empty; put an empty line between the subject and the body")
    return found


def main(arguments: list[str]) -> int:
    """Print the faults of the message in a file; the exit code is 1 if there are any."""
    found = faults(Path(arguments[0]).read_text(encoding="utf-8"))
    for fault in found:
        print(f"commit message: {fault}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
