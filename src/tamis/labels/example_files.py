"""Examples in files: Parquet with ids and spans, and no texts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tamis.collection.arrow_files import check_columns, read_parquet, reading, write_parquet
from tamis.durable import new_file
from tamis.errors import InputError
from tamis.labels.examples import LABEL_SOURCES, LABEL_TYPES, ROLES, Examples
from tamis.types import Ids, Passage, Queries

FILE_MARK = {b"tamis": b"examples"}
FACTS = b"tamis.facts"
CODED_COLUMNS = {"role": ROLES, "source": LABEL_SOURCES, "kind": LABEL_TYPES}
DAMAGED_HINT = "examples are made by tamis label; if the file is damaged, make the examples again"
PLAIN_COLUMNS = ("group", "start", "end", "titled", "value")
ORIGIN_COLUMNS = ("origin.doc", "origin.field", "origin.start", "origin.end")
"""Where the text of a query lies that was made from a document; empty for others."""


def write_examples(examples: Examples, path: Path | str, *, force: bool = False) -> None:
    """Write a Parquet file, whole or not at all."""
    columns: dict[str, Any] = {
        "query": pa.DictionaryArray.from_arrays(
            pa.array(examples.query), pa.array(list(examples.queries.ids), pa.large_string())
        ),
        "doc": pa.DictionaryArray.from_arrays(
            pa.array(examples.doc), pa.array(list(examples.docs), pa.large_string())
        ),
    }
    for name in PLAIN_COLUMNS:
        columns[name] = pa.array(getattr(examples, name))
    for name, names in CODED_COLUMNS.items():
        codes = getattr(examples, name).astype(np.int32)
        columns[name] = pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(list(names)))
    if examples.origins:
        columns |= _origin_columns(examples)
    facts = json.dumps(dict(examples.facts), ensure_ascii=False).encode()
    table = pa.table(columns).replace_schema_metadata({**FILE_MARK, FACTS: facts})
    with new_file(Path(path), force=force) as temporary_path:
        write_parquet(table, temporary_path)


def _origin_columns(examples: Examples) -> dict[str, Any]:
    origins = [examples.origins.get(number) for number in range(len(examples.queries))]
    columns = {
        "origin.doc": [origin and origin.doc_id for origin in origins],
        "origin.field": [origin and origin.field for origin in origins],
        "origin.start": [origin and origin.start for origin in origins],
        "origin.end": [origin and origin.end for origin in origins],
    }
    query_numbers = pa.array(examples.query)
    return {name: pa.array(values).take(query_numbers) for name, values in columns.items()}


def read_examples(path: Path | str) -> Examples:
    """The examples in a Parquet file.

    >>> from tempfile import TemporaryDirectory
    >>> one = Examples.of_rows([("q1", "d1", 1.0, "positive")], source="gold")
    >>> with TemporaryDirectory() as folder:
    ...     write_examples(one, Path(folder) / "examples.parquet")
    ...     read_examples(Path(folder) / "examples.parquet") == one
    True
    """
    table = _table(Path(path))
    with reading(path, DAMAGED_HINT):
        return _examples_of(table, path)


def _examples_of(table: Any, path: Path | str) -> Examples:
    queries, query = _ids(table, "query")
    docs, doc = _ids(table, "doc")
    columns: dict[str, Any] = {name: table[name].to_numpy() for name in PLAIN_COLUMNS}
    for name, names in CODED_COLUMNS.items():
        columns[name] = _codes(table, name, names, path)
    facts = json.loads(table.schema.metadata.get(FACTS, b"{}"))
    origins = _origins(table, query) if ORIGIN_COLUMNS[0] in table.column_names else {}
    return Examples(Queries(queries), docs, query=query, doc=doc, **columns, origins=origins,
                    facts=facts)  # fmt: skip


def _table(path: Path) -> Any:
    if not path.is_file():
        raise InputError(f"there is no file {path}", hint="make examples with tamis label")
    table = read_parquet(path, hint=DAMAGED_HINT)
    missing = {"query", "doc", *PLAIN_COLUMNS, *CODED_COLUMNS} - set(table.column_names)
    if (table.schema.metadata or {}).get(b"tamis") != b"examples" or missing:
        what = f"it has no column {min(missing)!r}" if missing else "it does not say that it is"
        raise InputError(
            f"{path} is no file of examples: {what}", hint="examples are made by tamis label"
        )
    origin = [name for name in ORIGIN_COLUMNS if ORIGIN_COLUMNS[0] in table.column_names]
    texts = ["query", "doc", *CODED_COLUMNS, *origin[:2]]
    numbers = [*PLAIN_COLUMNS, *origin[2:]]
    check_columns(table, path, DAMAGED_HINT, texts=texts, numbers=numbers, nullable=origin)
    return table


def _ids(table: Any, name: str) -> tuple[Ids, Any]:
    column = table[name].combine_chunks()
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    ids, number = Ids.numbering(column.dictionary.to_pylist())
    return ids, number[column.indices.to_numpy()]


def _codes(table: Any, name: str, names: tuple[str, ...], path: Path | str) -> Any:
    column = table[name].combine_chunks()
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    values = column.dictionary.to_pylist()
    unknown = sorted(set(values) - set(names), key=str)
    if unknown:
        raise InputError(
            f"{path} has the {name} {unknown[0]!r}", hint=f"use one of {', '.join(names)}"
        )
    codes = np.array([names.index(value) for value in values], np.int8)
    return codes[column.indices.to_numpy()]


def _origins(table: Any, query: Any) -> dict[int, Passage]:
    numbers, rows = np.unique(query, return_index=True)
    origin_rows = table.select(list(ORIGIN_COLUMNS)).take(pa.array(rows)).to_pylist()
    return {
        number: Passage(
            row[ORIGIN_COLUMNS[0]],
            0,
            row[ORIGIN_COLUMNS[2]],
            row[ORIGIN_COLUMNS[3]],
            row[ORIGIN_COLUMNS[1]],
        )
        for number, row in zip(numbers.tolist(), origin_rows, strict=True)
        if row[ORIGIN_COLUMNS[0]] is not None
    }
