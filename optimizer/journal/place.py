"""Where the journal of a catalog is when nobody says: a SQLite file in the user's own state.

    $XDG_STATE_HOME/interbed/optimizer/warehouse-tmp-lake-1f0c2b3a4d5e.db     (~/.local/state without the variable)

The name is made of the catalog's key: a part to read, and a hash so that each key has its own.
"""

import hashlib
import os
import re
from pathlib import Path

from sqlalchemy.engine import URL

from interbed.optimizer.errors import JournalError

READABLE_MAX = 40
"""Characters of the key in the name: its end tells most."""


def default_url(catalog_key: str) -> str:
    """The url of the journal of a catalog, the same for the same key. The directories are made, for the user alone.

    Raises JournalError when they can't be.
    """
    digest = hashlib.sha256(catalog_key.encode(errors="surrogatepass")).hexdigest()[:12]
    # What logs in somewhere is not for file names.
    public = re.sub(r"//[^/@]*@", "//", catalog_key)
    readable = re.sub(r"[^a-z0-9]+", "-", public.lower()).strip("-")[-READABLE_MAX:].strip("-")
    try:
        directory = _state_home() / "interbed" / "optimizer"
        for each in [*reversed(directory.parents), directory]:
            if not each.is_dir():
                each.mkdir(mode=0o700, exist_ok=True)
    except (OSError, RuntimeError) as error:
        raise JournalError(
            f"There is no place for the optimizer's journal of {public}: {error}. Name a database for it."
        ) from error
    return URL.create("sqlite", database=str(directory / f"{readable}-{digest}.db")).render_as_string()


def _state_home() -> Path:
    # A path that is not absolute is to be passed over, says the specification of these directories.
    given = Path(os.environ.get("XDG_STATE_HOME", ""))
    return given if given.is_absolute() else Path.home() / ".local" / "state"
