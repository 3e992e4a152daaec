"""The collection folder tamis writes: documents memory-mapped, each byte under a checksum.

    tamis.json        what the folder is: counts, splits, the size of every file
    documents.arrow   Arrow IPC: id, title, text, fields; in the order they were read
    batches.bin       where each record batch begins, in bytes and in rows
    ids.bin  ids-offsets.bin  ids-rows.bin    the sorted ids and the row of each
    queries.parquet   qrels/SPLIT.parquet
    checksums.bin     of all the files above, block by block, and last its own

How a folder is put in place whole or not at all is `durable`'s; the judgement files are
`judgements`' own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from tamis import durable, manifest
from tamis.collection.arrow_files import read_parquet, write_parquet
from tamis.collection.base import Collection
from tamis.collection.formats import Format
from tamis.errors import DamagedError, InputError
from tamis.types import Document, Ids, Qrels, Queries
from tamis.types._string_numbers import Interner
from tamis.types._strings import pack

KIND, LAYOUT = "collection", 1
DOCUMENTS, BATCHES, QUERIES = "documents.arrow", "batches.bin", "queries.parquet"
IDS, IDS_OFFSETS, IDS_ROWS = "ids.bin", "ids-offsets.bin", "ids-rows.bin"
CHECKSUMS = "checksums.bin"
FIELD = "fields."

BATCH_TEXT = durable.BLOCK
"""About how much text a record batch holds: one cold document costs two or three blocks."""
BATCH_DOCUMENTS = 8192

_SCHEMA = pa.schema(
    {
        "id": pa.large_string(),
        "title": pa.large_string(),
        "text": pa.large_string(),
        "fields": pa.map_(pa.string(), pa.large_string()),
    }
)


# Writing


def write_store(collection: Collection, path: Path, force: bool = False) -> None:
    """Write a collection as a folder that opens at once and keeps everything.

    Documents are streamed; only their ids stay in memory. Killed at any moment, `path` is what it
    was before.
    """
    with durable.new_folder(path, force=force) as folder:
        sums: dict[str, list[int]] = {}
        ids = _write_documents(collection, folder, sums)
        _write_ids(ids, folder, sums)
        _write_queries(collection.queries, folder / QUERIES)
        splits = _write_qrels(collection.qrels, folder)
        for name in [QUERIES, *splits.values()]:
            sums[name] = durable.checksums(folder / name).tolist()
        facts = {
            "name": collection.name,
            "source": collection.format,
            "documents": ids.count,
            "queries": len(collection.queries),
            "splits": splits,
            "files": {name: (folder / name).stat().st_size for name in sums},
        }
        manifest.write_manifest(folder, KIND, LAYOUT, **facts)
        _write_checksums(folder, [sum_ for of_file in sums.values() for sum_ in of_file])


def _batches(collection: Collection) -> Iterator[list[Document]]:
    batch: list[Document] = []
    size = 0
    for document in collection.documents:
        batch.append(document)
        size += len(document.text) + len(document.title)
        if size >= BATCH_TEXT or len(batch) >= BATCH_DOCUMENTS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _write_documents(collection: Collection, folder: Path, sums: dict[str, list[int]]) -> Interner:
    """Write the documents and where their batches lie; the ids, numbered by row."""
    ids = Interner()
    begins = []
    with (
        durable.Progress("writing documents", unit="documents") as progress,
        durable.SumsWriter(folder / DOCUMENTS) as file,
    ):
        sink = pa.PythonFile(file, mode="w")
        writer = pa.ipc.new_file(sink, _SCHEMA)
        for records in _batches(collection):
            begins.append((file.tell(), ids.count))
            _number(ids, records)
            writer.write_batch(_record_batch(records))
            progress.advance(len(records))
        begins.append((file.tell(), ids.count))
        writer.close()
    sums[DOCUMENTS] = file.sums
    sums[BATCHES] = _write_array(folder / BATCHES, np.array(begins, np.int64))
    return ids


def _number(ids: Interner, records: list[Document]) -> None:
    """Enter the ids of one batch, which must all be new."""
    expected = ids.count
    try:
        data, offsets = pack([document.id for document in records])
    except UnicodeEncodeError as error:
        raise InputError(
            f"a document id is not Unicode text: {error.object!r}", hint="give it another id"
        ) from None
    numbers = ids.add(data, offsets[:-1], offsets[1:])
    for document, number in zip(records, numbers.tolist(), strict=True):
        if number != expected:
            raise InputError(
                f"document id {document.id!r} occurs twice", hint="give every document its own id"
            )
        expected += 1


def _record_batch(records: list[Document]) -> pa.RecordBatch:
    try:
        return pa.record_batch(
            [
                pa.array([document.id for document in records], pa.large_string()),
                pa.array([document.title for document in records], pa.large_string()),
                pa.array([document.text for document in records], pa.large_string()),
                pa.array([list(document.fields.items()) for document in records], _SCHEMA[3].type),
            ],
            schema=_SCHEMA,
        )
    except UnicodeEncodeError:
        raise InputError(
            f"document {_not_text(records)!r} holds half a character (a lone surrogate)",
            hint="read its file as UTF-8 and write it again",
        ) from None


def _not_text(records: list[Document]) -> str:
    """The id of the first document that cannot be written as UTF-8."""
    for document in records:
        for text in (document.title, document.text, *document.fields, *document.fields.values()):
            if text.encode(errors="replace").decode() != text:
                return document.id
    return records[0].id


def _write_ids(interner: Interner, folder: Path, sums: dict[str, list[int]]) -> None:
    ids, number_of = Ids.numbering_tables([interner.table()])
    rows = np.empty_like(number_of)
    rows[number_of] = np.arange(len(rows), dtype=np.int32)
    sums[IDS] = _write_array(folder / IDS, ids.data)
    sums[IDS_OFFSETS] = _write_array(folder / IDS_OFFSETS, ids.offsets)
    sums[IDS_ROWS] = _write_array(folder / IDS_ROWS, rows)


def _write_array(path: Path, array: NDArray[Any]) -> list[int]:
    """Write the numbers as they lie in memory (little-endian); the file's checksums."""
    little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
    with durable.SumsWriter(path) as file:
        if little.size:
            file.write(little)
    return file.sums


def _write_queries(queries: Queries, path: Path) -> None:
    columns: dict[str, Any] = {"id": list(queries.ids)}
    if queries.texts is not None:
        columns["text"] = queries.texts
    columns |= {FIELD + name: values for name, values in queries.fields.items()}
    arrays = {name: pa.array(values, pa.string()) for name, values in columns.items()}
    write_parquet(pa.table(arrays), path)


def _write_qrels(qrels: Mapping[str, Qrels], folder: Path) -> dict[str, str]:
    """Write each split; the file of each."""
    from tamis.collection.judgements import write_qrels

    (folder / "qrels").mkdir()
    files = {}
    for split, judged in qrels.items():
        files[split] = f"qrels/{quote(split, safe='')}.parquet"
        write_qrels(judged, folder / files[split], format="parquet")
    return files


def _write_checksums(folder: Path, sums: list[int]) -> None:
    """First the checksum of the note, then those of all blocks, last that of this file."""
    note = xxhash.xxh3_64_intdigest((folder / manifest.NAME).read_bytes())
    raw = np.array([note, *sums], "<u8").tobytes()
    own = np.array([xxhash.xxh3_64_intdigest(raw)], "<u8").tobytes()
    (folder / CHECKSUMS).write_bytes(raw + own)


# Reading


def open_store(path: Path) -> Collection:
    """Open a collection that tamis wrote; nothing is read yet but its note and its checksums."""
    folder = _Folder(path)
    return Collection(
        folder.note["name"], KIND, DocumentStore(path), folder.read_queries, folder.read_qrels
    )


def verify_store(path: Path) -> None:
    """Read every byte; `DamagedError` names the first file that is not what was written."""
    folder = _Folder(path)
    total = sum(folder.note["files"].values())
    with durable.Progress(f"verifying {path.name}", total, "bytes") as progress:
        for name in folder.note["files"]:
            checked = folder.file(name)
            for start in range(0, len(checked.data), durable.BLOCK):
                end = min(start + durable.BLOCK, len(checked.data))
                checked.touch(start, end)
                progress.advance(end - start)


class _Folder:
    """The note and the checksums of a store, verified; its files are mapped when asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        sums = _read_checksums(path)
        self.note = manifest.expect(path, KIND, LAYOUT)
        if sums is None:
            raise _damaged(path / CHECKSUMS, "is missing")
        blocks = [-(-size // durable.BLOCK) for size in self.note["files"].values()]
        bounds = np.concatenate([[0], np.cumsum(blocks, dtype=np.int64)])
        self._sums = {
            name: sums[start:end]
            for name, (start, end) in zip(self.note["files"], pairwise(bounds), strict=True)
        }

    def file(self, name: str) -> durable.Checked:
        """A file, mapped, whose size is right and whose blocks are verified when touched."""
        return durable.Checked(self.path / name, self._sums[name], self.note["files"][name])

    def array(self, name: str, dtype: str) -> NDArray[Any]:
        """All of a file as numbers, mapped and verified."""
        return np.asarray(self.file(name).view()).view(dtype)

    def read_queries(self) -> Queries:
        raw = self.file(QUERIES).view()
        columns = read_parquet(self.path / QUERIES, pa.py_buffer(raw)).to_pydict()
        ids, texts = Ids.of(columns.pop("id")), columns.pop("text", None)
        fields = {name.removeprefix(FIELD): tuple(column) for name, column in columns.items()}
        return Queries(ids, None if texts is None else tuple(texts), fields)

    def read_qrels(self) -> dict[str, Qrels]:
        from tamis.collection.judgements import read_qrels

        splits = self.note["splits"].items()
        for _, name in splits:
            self.file(name).view()
        return {split: read_qrels(self.path / name) for split, name in splits}


def _read_checksums(path: Path) -> NDArray[np.uint64] | None:
    """The checksums of all blocks, after a look at the file's own and the note's."""
    if not (path / CHECKSUMS).is_file():
        return None
    raw = (path / CHECKSUMS).read_bytes()
    sums = np.frombuffer(raw[: len(raw) // 8 * 8], "<u8")
    if len(raw) % 8 or len(sums) < 2 or int(sums[-1]) != xxhash.xxh3_64_intdigest(raw[:-8]):
        raise _damaged(path / CHECKSUMS, "is not what was written")
    note = path / manifest.NAME
    if not note.is_file():
        raise _damaged(note, "is missing")
    if int(sums[0]) != xxhash.xxh3_64_intdigest(note.read_bytes()):
        raise _damaged(note, "is not what was written")
    return sums[1:-1]


def _damaged(path: Path, problem: str) -> DamagedError:
    return DamagedError(f"{path} {problem}", hint="write the collection again")


class DocumentStore:
    """The documents of a store: by id, by number in `ids`, or all in the order they were written.

    A batch is verified when it is first touched, the table of ids when it is first used.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        folder = _Folder(path)
        self._count: int = folder.note["documents"]
        self._ids, self._id_offsets = folder.file(IDS), folder.file(IDS_OFFSETS)
        self._id_rows = folder.file(IDS_ROWS)
        begins = folder.array(BATCHES, "<i8").reshape(-1, 2)
        self._bytes, self._rows = begins[:, 0], np.ascontiguousarray(begins[:, 1])
        self._file = folder.file(DOCUMENTS)
        self._file.touch(0, int(self._bytes[0]))
        self._file.touch(int(self._bytes[-1]), len(self._file.data))
        self._reader = pa.ipc.open_file(pa.py_buffer(self._file.data))

    def __reduce__(self) -> tuple[type[DocumentStore], tuple[Path]]:
        return DocumentStore, (self.path,)

    @cached_property
    def ids(self) -> Ids:
        """The ids in the order of their bytes: a document's number is its place here."""
        offsets = np.asarray(self._id_offsets.view()).view("<i8")
        return Ids(np.asarray(self._ids.view()), offsets)

    @cached_property
    def rows(self) -> NDArray[np.int32]:
        """Of each document by its number: the row in which it was written."""
        return np.asarray(self._id_rows.view()).view("<i4")

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Document]:
        for number in range(len(self._rows) - 1):
            yield from _documents(self._batch(number))

    def __contains__(self, doc_id: object) -> bool:
        return doc_id in self.ids

    def __getitem__(self, doc_id: str) -> Document:
        return self.document(self.ids.number(doc_id))

    def __repr__(self) -> str:
        return f"<DocumentStore: {len(self):,} documents in {self.path}>"

    def document(self, number: int) -> Document:
        """The document with this number."""
        row = int(self._rows_of(np.array([number]))[0])
        batch = int(np.searchsorted(self._rows, row, "right")) - 1
        return next(_documents(self._batch(batch).slice(row - int(self._rows[batch]), 1)))

    def texts(self, numbers: NDArray[np.integer[Any]]) -> list[str]:
        """The texts of the documents with these numbers, in any order, repeats included."""
        return self._column("text", numbers)

    def titles(self, numbers: NDArray[np.integer[Any]]) -> list[str]:
        """The titles of the documents with these numbers."""
        return self._column("title", numbers)

    def columns(self, name: str) -> Iterator[tuple[int, pa.Array]]:
        """A column batch by batch, in the order of rows, each with its first row."""
        for number, first in enumerate(self._rows[:-1].tolist()):
            yield first, self._batch(number).column(name)

    def _column(self, name: str, numbers: NDArray[np.integer[Any]]) -> list[str]:
        rows = self._rows_of(np.asarray(numbers))
        order = np.argsort(rows, kind="stable")
        rows = rows[order]
        batches, firsts = np.unique(
            np.searchsorted(self._rows, rows, "right") - 1, return_index=True
        )
        bounds = pairwise([*firsts.tolist(), len(rows)])
        in_row_order: list[str] = []
        for batch, (start, end) in zip(batches.tolist(), bounds, strict=True):
            column = self._batch(batch).column(name)
            places = pa.array(rows[start:end] - self._rows[batch])
            in_row_order.extend(column.take(places).to_pylist())
        texts = [""] * len(in_row_order)
        for place, text in zip(order.tolist(), in_row_order, strict=True):
            texts[place] = text
        return texts

    def _rows_of(self, numbers: NDArray[np.integer[Any]]) -> NDArray[np.int32]:
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < self._count:
            raise IndexError(f"document numbers here are 0 to {self._count - 1}")
        rows: NDArray[np.int32] = self.rows[numbers]
        return rows

    def _batch(self, number: int) -> pa.RecordBatch:
        self._file.touch(int(self._bytes[number]), int(self._bytes[number + 1]))
        return self._reader.get_batch(number)


def _documents(batch: pa.RecordBatch) -> Iterator[Document]:
    columns = (column.to_pylist() for column in batch.columns)
    for doc_id, title, text, fields in zip(*columns, strict=True):
        yield Document(doc_id, text, title, dict(fields))


COLLECTION = Format(
    name=KIND,
    aliases=("store",),
    description="folder that tamis wrote, which opens at once",
    holds=("collection",),
    open_collection=lambda path, faults: open_store(path),
    write_collection=lambda collection, path, notes, force: write_store(collection, path, force),
)
