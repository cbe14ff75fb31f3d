"""Which manifests are rewritten when a snapshot is committed, so that their number stays small. Pure.

Minor: manifests in a row are merged whenever they reach the target size together, and the rest when they are many.
Full: when small and deleting manifests weigh more than a threshold, all deletions are resolved.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from interbed.storage.meta.manifest.entry import ManifestFileMeta


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestGroup:
    """Manifests in a row; one alone is kept as it is, several become one or a few new ones."""

    manifests: tuple[ManifestFileMeta, ...]

    @property
    def is_merged(self) -> bool:
        """Whether the group is rewritten."""
        return len(self.manifests) > 1


def must_change(manifest: ManifestFileMeta, target_size: int) -> bool:
    """Whether a full merge rewrites the manifest whatever it holds: it deletes files, or it is small."""
    return manifest.num_deleted_files > 0 or manifest.file_size < target_size


def needs_full_merge(manifests: Collection[ManifestFileMeta], *, target_size: int, threshold: int) -> bool:
    """Whether the manifests that must change weigh at least the threshold, and there is more than one manifest."""
    weight = sum(m.file_size for m in manifests if must_change(m, target_size))
    return len(manifests) > 1 and weight >= threshold


def can_merge_fully(manifests: Collection[ManifestFileMeta], *, target_size: int) -> bool:
    """Whether a full merge makes something of the manifests: it has two or more to rewrite, or deletions to resolve."""
    changing = [m for m in manifests if must_change(m, target_size)]
    return len(manifests) > 1 and (len(changing) > 1 or any(m.num_deleted_files for m in changing))


def minor_merge_groups(
    manifests: Sequence[ManifestFileMeta], *, target_size: int, min_count: int
) -> list[ManifestGroup]:
    """The manifests in their order, cut into groups; every manifest is in exactly one."""
    groups: list[ManifestGroup] = []
    candidates: list[ManifestFileMeta] = []
    size = 0
    for manifest in manifests:
        candidates.append(manifest)
        size += manifest.file_size
        if size >= target_size:
            groups.append(ManifestGroup(manifests=tuple(candidates)))
            candidates, size = [], 0
    if len(candidates) >= max(min_count, 2):
        groups.append(ManifestGroup(manifests=tuple(candidates)))
    else:
        groups += [ManifestGroup(manifests=(m,)) for m in candidates]
    return groups
