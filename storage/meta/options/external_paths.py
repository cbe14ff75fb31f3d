"""Options of data files outside of the table's directory: `data-file.external-paths` and the strategies to choose one.

Source: paimon-core `AbstractFileStore.createExternalPaths`, paimon-common `fs.ExternalPathProvider`.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.meta.options.reader import OptionReader

EXTERNAL_PATHS = "data-file.external-paths"
_STRATEGY = "data-file.external-paths.strategy"
_SPECIFIC_FS = "data-file.external-paths.specific-fs"
_WEIGHTS = "data-file.external-paths.weights"
_URI = re.compile(r"^([A-Za-z][A-Za-z0-9+.\-]*):(?://([^/]*))?(/.*)$", re.DOTALL)


class ExternalPathStrategy(StrEnum):
    """How the external path of a new file is chosen."""

    NONE = "none"
    SPECIFIC_FS = "specific-fs"
    ROUND_ROBIN = "round-robin"
    ENTROPY_INJECT = "entropy-inject"
    WEIGHTED = "weight-robin"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalPaths:
    """The directories outside, as URIs in the spelling of Java's; `weights` are those of a weighted choice."""

    roots: tuple[str, ...]
    strategy: ExternalPathStrategy
    weights: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class ExternalPathOptions(OptionReader):
    """The options of data files outside of the table's directory."""

    @property
    def external_roots(self) -> tuple[str, ...]:
        """URIs of directories outside of the table's, in the same store, below which the strategy puts data files."""
        return tuple(_root(text) for text in self.names(EXTERNAL_PATHS))

    @property
    def external_paths(self) -> ExternalPaths | None:
        """How the path outside is chosen for a new data file; None for the table's own directory."""
        strategy = self.choice(_STRATEGY, ExternalPathStrategy.NONE)
        roots = self.external_roots
        if strategy is ExternalPathStrategy.NONE or not roots:
            return None
        if strategy is ExternalPathStrategy.SPECIFIC_FS:
            scheme = self.text(_SPECIFIC_FS, "").lower()
            if not scheme:
                raise InvalidOptionError(f"Option '{_STRATEGY}' = '{strategy}' needs '{_SPECIFIC_FS}'.")
            chosen = tuple(root for root in roots if root.partition(":")[0].lower() == scheme)
            if not chosen:
                raise InvalidOptionError(
                    f"Option '{_SPECIFIC_FS}' = '{scheme}' is the scheme of no path of '{EXTERNAL_PATHS}'."
                )
            return ExternalPaths(roots=chosen, strategy=strategy)
        if strategy is ExternalPathStrategy.WEIGHTED:
            return ExternalPaths(roots=roots, strategy=strategy, weights=self._weights(len(roots)))
        return ExternalPaths(roots=roots, strategy=strategy)

    def _weights(self, paths: int) -> tuple[int, ...] | None:
        texts = self.names(_WEIGHTS)
        if not texts:
            return None
        weights = tuple(int(text) if text.isdecimal() else 0 for text in texts)
        if min(weights) < 1 or len(weights) != paths:
            raise InvalidOptionError(
                f"Option '{_WEIGHTS}' takes a positive number for each path of '{EXTERNAL_PATHS}', "
                f"not '{self.raw[_WEIGHTS]}'."
            )
        return weights


def _root(text: str) -> str:
    match = _URI.match(text)
    if match is None:
        raise InvalidOptionError(
            f"Option '{EXTERNAL_PATHS}' takes URIs such as 'file:///data/t' or 's3://bucket/t', not '{text}'."
        )
    authority = f"//{match[2]}" if match[2] else ""
    # Java's Path leaves an empty authority out, and what it says is what stands in manifests.
    return f"{match[1]}:{authority}{re.sub('/+', '/', match[3]).rstrip('/')}"
