"""How a table wants its files: the properties of Iceberg's writers, and of Amoro's optimizer where Iceberg has none.

Sources: Iceberg's documentation, "Configuration", "Write properties", and the options of its procedure
`rewrite_data_files`; Amoro's documentation, "Table Configurations", "Self-optimizing".
"""

from collections.abc import Mapping
from dataclasses import dataclass

from interbed.storage.base.errors import InvalidOptionError, NotSupportedError
from interbed.storage.meta.options.optimizing import OptimizingOptions

_TARGET = "write.target-file-size-bytes"
_FORMAT = "write.format.default"
_RATIO = "self-optimizing.major.trigger.duplicate-ratio"
_FILES = "self-optimizing.minor.trigger.file-count"

_SMALL = 0.75
"""A file below this part of the target size is a small one; as Iceberg's `min-file-size-bytes`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeSettings:
    """`target` in bytes; a file is rewritten when more than `deleted_ratio` of its rows are deleted, small ones when
    there are `small_files` of them in a partition or when together they make a file of the target size.
    """

    target: int = 512 << 20
    deleted_ratio: float = 0.1
    small_files: int = 5
    file_format: str = "parquet"

    @property
    def small(self) -> int:
        """The size below which a file is a small one, in bytes."""
        return int(self.target * _SMALL)

    @staticmethod
    def of(properties: Mapping[str, str]) -> "OptimizeSettings":
        """What a table's properties say; raises InvalidOptionError."""
        default = OptimizeSettings()
        return OptimizeSettings(
            target=OptimizingOptions(properties).optimizing_target_size
            or int(_number(properties, _TARGET, default.target, least=1)),
            deleted_ratio=_number(properties, _RATIO, default.deleted_ratio, least=0),
            small_files=int(_number(properties, _FILES, default.small_files, least=2)),
            file_format=properties.get(_FORMAT, "parquet").lower(),
        )

    def check_format(self) -> None:
        """Raise NotSupportedError for a table whose new data files should be of another format than Parquet."""
        if self.file_format != "parquet":
            raise NotSupportedError(
                f"The table wants its files in {self.file_format} ('{_FORMAT}'); they are rewritten as Parquet only. "
                f"Set it to 'parquet', or rewrite them with Spark."
            )


def _number(properties: Mapping[str, str], name: str, default: float, *, least: float) -> float:
    text = properties.get(name)
    if text is None:
        return default
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not found >= least:
        raise InvalidOptionError(f"The table property '{name}' is {text!r}; it should be a number of {least} or more.")
    return found
