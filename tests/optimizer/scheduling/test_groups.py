"""Group files: their contents, and the errors for wrong ones."""

from pathlib import Path

import pytest

from interbed.optimizer.flow.tables import GroupPolicy, ResourceGroup, read_groups
from interbed.storage.base.errors import InvalidInputError


def written(directory: Path, text: str) -> Path:
    """Write a group file and return its path."""
    path = directory / "groups.toml"
    path.write_text(text)
    return path


def test_a_group_file_names_groups_and_missing_fields_have_defaults(tmp_path: Path) -> None:
    text = """
        [default]
        [night]
        workers = 0
        threads = 4
        memory = "2 gb"
        policy = "balanced"
        window = "30 min"
    """
    night = ResourceGroup(
        name="night", workers=0, threads=4, memory=2 << 30, policy=GroupPolicy.BALANCED, window_millis=1_800_000
    )
    assert read_groups(written(tmp_path, text)) == {"default": ResourceGroup(), "night": night}
    assert ResourceGroup.from_json(night.to_json()) == night


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("workers = 1", "has 'workers' outside of a group"),
        ("[default]\nworker = 1", "Group 'default' in .* has no 'worker'.*workers"),
        ("[g]\nworkers = true", "'workers' of group 'g' in .* is True, not a number"),
        ("[g]\nthreads = '2'", "'threads' of group 'g' in .* is '2', not a number"),
        ("[g]\nworkers = -1", "Group 'g' has -1 workers"),
        ("[g]\nthreads = 0", "of 0 threads"),
        ("[g]\nmemory = 'much'", "Group 'g' in .*: .*much"),
        ("[g]\nwindow = 'long'", "Group 'g' in .*: .*long"),
        ("[g]\npolicy = 'fair'", "Group 'g' in .*: .*fair"),
        ("[g", "The groups in .* can't be read"),
    ],
)
def test_a_bad_file_is_refused_with_its_name_the_group_and_the_field(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said) as raised:
        read_groups(written(tmp_path, text))
    assert "groups.toml" in str(raised.value)


def test_a_missing_or_binary_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for path in (tmp_path / "none", tmp_path / "binary"):
        with pytest.raises(InvalidInputError, match=f"The groups in {path} can't be read"):
            read_groups(path)
