"""Generated parts of docs/operating.md.

`python -m tests.support.operating_docs` writes them again.
"""

from pathlib import Path

from interbed.catalog.server.hive_site import HIVE_KEYS
from interbed.catalog.server.settings import SETTINGS

PAGE = Path(__file__).parents[2] / "docs" / "operating.md"

BEGIN = "<!-- settings: made by python -m tests.support.operating_docs -->"
END = "<!-- end of settings -->"


def settings_table() -> str:
    """Return the settings as a table in Markdown."""
    lines = ["| setting | default | meaning | in a Hive site |", "|---|---|---|---|"]
    for setting in SETTINGS.values():
        default = "" if setting.default is None else f"`{setting.default}`"
        choices = f" {' or '.join(f'`{word}`' for word in setting.kind.choices)}." if setting.kind.choices else ""
        hive = f"`{HIVE_KEYS[setting.name]}`" if setting.name in HIVE_KEYS else ""
        lines.append(f"| `{setting.name}` | {default} | {setting.help}{choices} | {hive} |")
    return "\n".join(lines)


def with_settings(page: str) -> str:
    """Return the page with its table of settings replaced."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{settings_table()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(with_settings(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
