"""Parquet and Arrow files: written under checksums and a digest, read verified or not at all.

A Parquet file that tamis writes has a checksum a page, and in its metadata a digest of its schema
and one of its columns' values. Files of others have none and are read without. What the columns
mean is left to whoever reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
import xxhash

from tamis.errors import DamagedError, InputError

if TYPE_CHECKING:
    import pyarrow.parquet as pq

PARQUET_MAGIC = b"PAR1"
DIGEST_KEY = b"tamis.digest"
"""The metadata's key for the two digests, with a colon between."""
ROWS_IN_MEMORY = 4096
"""Where a file is read or written in batches."""
DIGEST_ROWS = 1 << 16
"""How many rows are digested at a time; the digest does not depend on it."""
READ_ERRORS = (pa.ArrowException, OSError, ValueError, LookupError, OverflowError, MemoryError)
"""What pyarrow raises on a damaged file."""
FILE_WHOLE_HINT = "is the file whole?"


class ColumnsDigest:
    """A digest of values, column by column; however the rows are split into batches.

    >>> whole, halves = ColumnsDigest(1), ColumnsDigest(1)
    >>> whole.update(pa.record_batch({"id": ["a", None, "b"]}))
    >>> halves.update(pa.record_batch({"id": ["a"]}))
    >>> halves.update(pa.record_batch({"id": [None, "b"]}))
    >>> whole.hexdigest() == halves.hexdigest()
    True
    """

    def __init__(self, columns: int) -> None:
        self._hashes = [[xxhash.xxh3_64() for _ in range(3)] for _ in range(columns)]

    def update(self, batch: pa.RecordBatch) -> None:
        """Take in some more rows."""
        for hashes, column in zip(self._hashes, batch.columns, strict=True):
            for hash, content in zip(hashes, _contents(column), strict=True):
                hash.update(content)

    def hexdigest(self) -> str:
        """The digest of all rows so far."""
        digests = [hash.digest() for hashes in self._hashes for hash in hashes]
        return str(xxhash.xxh3_64_hexdigest(b"".join(digests)))


def _contents(column: pa.Array) -> tuple[Any, Any, Any]:
    """Which rows hold a value, how long each value is where that differs, and the values."""
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    column, type_ = column.drop_null(), column.type
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        column = column.cast(pa.large_string())
        _, offsets, values = column.buffers()
        if not len(column):
            return valid, b"", b""
        bounds = np.frombuffer(offsets, np.int64, len(column) + 1, 8 * column.offset)
        content = b"" if values is None else memoryview(values)[bounds[0] : bounds[-1]]
        return valid, np.diff(bounds), content
    if pa.types.is_floating(type_) or pa.types.is_integer(type_) or pa.types.is_boolean(type_):
        return valid, b"", np.ascontiguousarray(column.to_numpy(zero_copy_only=False))
    return valid, b"", repr(column.to_pylist())[1:-1].encode("utf-8", "surrogatepass")


def _schema_digest(schema: pa.Schema) -> str:
    """The digest of the columns' names and types and of what the metadata says beside it."""
    columns = [(field.name, _type_name(field.type)) for field in schema]
    facts = sorted(item for item in (schema.metadata or {}).items() if item[0] != DIGEST_KEY)
    return str(xxhash.xxh3_64_hexdigest(repr((columns, facts)).encode("utf-8", "surrogatepass")))


def _type_name(type_: pa.DataType) -> str:
    """A type by name, as far as Parquet keeps it: not the unit of a time, nor a dictionary."""
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    return "time" if pa.types.is_temporal(type_) else str(type_).removeprefix("large_")


class ParquetWriter:
    """A Parquet file being written in batches; its digest is added when it is closed."""

    def __init__(self, path: Path, schema: pa.Schema, compression: str = "zstd") -> None:
        self._schema, self._digest = schema, ColumnsDigest(len(schema))
        import pyarrow.parquet as pq

        self._writer = pq.ParquetWriter(
            path, schema, compression=compression, write_page_checksum=True
        )

    def write(self, table: pa.Table | pa.RecordBatch, rows_in_group: int | None = None) -> None:
        """Append rows."""
        table = pa.Table.from_batches([table]) if isinstance(table, pa.RecordBatch) else table
        self._writer.write_table(table, rows_in_group)
        for batch in table.to_batches(DIGEST_ROWS):
            self._digest.update(batch)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            digests = f"{_schema_digest(self._schema)}:{self._digest.hexdigest()}"
            self._writer.add_key_value_metadata({DIGEST_KEY: digests.encode()})
        self._writer.close()


def write_parquet(
    table: pa.Table, path: Path, compression: str = "zstd", rows_in_group: int | None = None
) -> None:
    """Write a table with its digest; that it appears whole is left to `durable`."""
    with ParquetWriter(path, table.schema, compression) as writer:
        writer.write(table, rows_in_group)


@contextmanager
def reading(path: Path | str, hint: str = FILE_WHOLE_HINT) -> Iterator[None]:
    """Say of whatever goes wrong inside which file it is and what to do."""
    try:
        yield
    except InputError as error:
        if error.hint:
            raise
        raise InputError(f"{path}: {error}", hint=hint) from None
    except READ_ERRORS as error:
        reason = str(error).partition("\n")[0][:200] or type(error).__name__
        raise InputError(f"{path} cannot be read: {reason}", hint=hint) from None


def is_parquet(path: Path) -> bool:
    """Whether a file begins as Parquet does."""
    with path.open("rb") as file:
        return file.read(len(PARQUET_MAGIC)) == PARQUET_MAGIC


def read_metadata(path: Path) -> dict[bytes, bytes]:
    """What the metadata of a Parquet file says, verified if tamis wrote it."""
    with reading(path), _open_parquet(path) as file:
        _expected_digest(file, path)
        return dict(file.schema_arrow.metadata or {})


def read_column_names(path: Path) -> list[str]:
    """The names of the columns of a Parquet file."""
    with reading(path), _open_parquet(path) as file:
        return list(file.schema_arrow.names)


def read_parquet(
    path: Path, source: pa.Buffer | None = None, *, hint: str = FILE_WHOLE_HINT
) -> pa.Table:
    """A whole Parquet file, verified; from `source` where its bytes are in memory already."""
    if source is None and not is_parquet(path):
        raise InputError(f"{path} is no Parquet file", hint=hint)
    with reading(path, hint), _open_parquet(path, source) as file:
        expected = _expected_digest(file, path)
        table = file.read()
        table.validate(full=True)
        digest = ColumnsDigest(table.num_columns)
        for batch in table.to_batches(DIGEST_ROWS) if expected else ():
            digest.update(batch)
    if expected not in ("", digest.hexdigest()):
        raise _changed(path)
    return table


def parquet_batches(path: Path, rows: int = ROWS_IN_MEMORY) -> Iterator[pa.RecordBatch]:
    """A Parquet file, some rows at a time; the digest is checked after the last."""
    with reading(path), _open_parquet(path) as file:
        expected = _expected_digest(file, path)
        digest = ColumnsDigest(len(file.schema_arrow))
        for batch in file.iter_batches(rows):
            _validate(batch)
            if expected:
                digest.update(batch)
            yield batch
    if expected not in ("", digest.hexdigest()):
        raise _changed(path)


def arrow_batches(path: Path) -> Iterator[pa.RecordBatch]:
    """An Arrow file or stream, some rows at a time; a batch is validated before it is used."""
    with reading(path), pa.memory_map(str(path)) as source:
        is_file = source.read(6) == b"ARROW1"
        source.seek(0)
        if is_file:
            file = pa.ipc.open_file(source)
            batches: Iterable[pa.RecordBatch] = map(file.get_batch, range(file.num_record_batches))
        else:
            batches = pa.ipc.open_stream(source)
        for batch in batches:
            _validate(batch)
            yield batch


def _validate(batch: pa.RecordBatch) -> None:
    """Refuse values, lengths and names that cannot be; pyarrow looks at none of them unasked."""
    batch.validate(full=True)
    _ = batch.schema.names  # decoded only now


@contextmanager
def _open_parquet(path: Path, source: pa.Buffer | None = None) -> Iterator[pq.ParquetFile]:
    import pyarrow.parquet as pq

    where = path if source is None else pa.BufferReader(source)
    with pq.ParquetFile(where, page_checksum_verification=True) as file:
        yield file


def _expected_digest(file: pq.ParquetFile, path: Path) -> str:
    """The digest that the columns must have, or none; that of the schema is checked here."""
    schema, facts = file.schema_arrow, dict(file.metadata.metadata or {})
    digests = facts.pop(DIGEST_KEY, None)
    if digests is None:
        return ""
    facts.pop(b"ARROW:schema", None)  # the schema, in which pyarrow repeats the facts
    of_schema, _, of_columns = digests.decode("ascii", "replace").partition(":")
    if not of_columns or _schema_digest(schema) != of_schema or facts != (schema.metadata or {}):
        raise _changed(path)
    return str(of_columns)


def _changed(path: Path) -> DamagedError:
    return DamagedError(
        f"{path} is not what was written: its digest differs",
        hint="the file was changed or the disk is failing; make it again",
    )


def check_columns(
    table: pa.Table,
    path: Path | str,
    hint: str,
    *,
    ids: Iterable[str] = (),
    texts: Iterable[str] = (),
    numbers: Iterable[str] = (),
    nullable: Iterable[str] = (),
) -> None:
    """Refuse a table without these columns, or with values in them of another type or missing."""
    kinds = (
        (ids, _is_id, "text or whole numbers"),
        (texts, _is_text, "text"),
        (numbers, _is_number, "numbers"),
    )
    for names, is_type, what in kinds:
        for name in names:
            if table.column_names.count(name) != 1:
                columns = ", ".join(table.column_names) or "none"
                raise InputError(f"{path} has no column {name!r}; it has: {columns}", hint=hint)
            column = table[name]
            if not is_type(column.type):
                raise InputError(
                    f"{path} has the type {column.type} in column {name!r}, not {what}", hint=hint
                )
            if column.null_count and name not in nullable:
                raise InputError(f"{path} has a row without a {name}", hint=hint)


def _is_id(type_: pa.DataType) -> bool:
    return _is_text(type_) or bool(pa.types.is_integer(type_))


def _is_text(type_: pa.DataType) -> bool:
    values = type_.value_type if pa.types.is_dictionary(type_) else type_
    return bool(pa.types.is_string(values) or pa.types.is_large_string(values))


def _is_number(type_: pa.DataType) -> bool:
    is_types = pa.types.is_floating, pa.types.is_integer, pa.types.is_boolean
    return any(is_type(type_) for is_type in is_types)
