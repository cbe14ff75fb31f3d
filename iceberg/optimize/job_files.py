"""The files that a job wrote, which have its name in theirs: for those of tasks whose result nobody got."""

from collections.abc import Collection, Iterator

from interbed.iceberg.optimize.job import OptimizeJob
from interbed.storage.base.fileio.api import FileIO


def sweep(job: OptimizeJob, kept: Collection[str] = ()) -> None:
    """Delete the job's files but those that are kept, by their paths; failures are logged."""
    file_io, root = job.files.open(job.location)
    names = {path.rpartition("/")[2] for path in kept}
    file_io.delete_quietly(
        path
        for path, name in _files(file_io, f"{root.rstrip('/')}/data")
        if name.startswith(job.name) and name not in names
    )


def _files(file_io: FileIO, folder: str) -> Iterator[tuple[str, str]]:
    for status in file_io.list(folder):
        if status.is_directory:
            yield from _files(file_io, status.path)
        else:
            yield status.path, status.name
