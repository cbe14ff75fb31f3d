"""The kinds of index by name: what columns they take, who writes and who reads them."""

from collections.abc import Callable
from dataclasses import dataclass

from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.base.row.values import type_name
from interbed.storage.base.types.data_type import AtomicType, DataType, TypeRoot
from interbed.storage.files.file_index import bitmap, bloom_filter, bsi, range_bitmap
from interbed.storage.files.file_index.api import IndexReader, IndexWriter
from interbed.storage.files.file_index.values import MAX_LONG_DECIMAL, ValueForm
from interbed.storage.meta.options.reader import OptionReader


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexKind:
    """One kind; `roots` are the types that it takes."""

    roots: frozenset[TypeRoot]
    writer: Callable[[ValueForm, OptionReader], IndexWriter]
    reader: Callable[[ValueForm, bytes], IndexReader]


KINDS = {
    bloom_filter.KIND: IndexKind(
        roots=bloom_filter.ROOTS, writer=bloom_filter.BloomFilterWriter, reader=bloom_filter.BloomFilterReader
    ),
    bitmap.KIND: IndexKind(roots=bitmap.ROOTS, writer=bitmap.BitmapWriter, reader=bitmap.BitmapReader),
    bsi.KIND: IndexKind(roots=bsi.ROOTS, writer=bsi.BsiWriter, reader=bsi.BsiReader),
    range_bitmap.KIND: IndexKind(
        roots=range_bitmap.ROOTS, writer=range_bitmap.RangeBitmapWriter, reader=range_bitmap.RangeBitmapReader
    ),
}


def index_kind(name: str) -> IndexKind:
    """The kind of that name; raises InvalidOptionError."""
    try:
        return KINDS[name]
    except KeyError:
        known = ", ".join(KINDS)
        raise InvalidOptionError(
            f"Option 'file-index.{name}.columns' names no kind of file index; there are {known}."
        ) from None


def value_form(kind: IndexKind, data_type: DataType) -> ValueForm | None:
    """How the kind holds values of the type; None when it does not take it."""
    if not isinstance(data_type, AtomicType) or data_type.root not in kind.roots:
        return None
    if data_type.root is TypeRoot.DECIMAL and (data_type.precision or 0) > MAX_LONG_DECIMAL:
        return None
    form = ValueForm.of(data_type)
    # A range bitmap could not distinguish what timestamps have beyond microseconds.
    return None if form is not None and not form.is_exact and kind is KINDS[range_bitmap.KIND] else form


def check_type(kind: str, column: str, data_type: DataType) -> ValueForm:
    """How the kind holds the column's values; raises InvalidOptionError naming both when it does not take them."""
    form = value_form(index_kind(kind), data_type)
    if form is None:
        raise InvalidOptionError(
            f"Option 'file-index.{kind}.columns' names the column {column!r}, which is {type_name(data_type)}; "
            f"{kind} does not take that type. Leave the column out."
        )
    return form
