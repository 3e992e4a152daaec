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
from tamis.labels.examples import KINDS, ROLES, SOURCES, Examples
from tamis.types import Ids, Passage, Queries

MARK = {b"tamis": b"examples"}
FACTS = b"tamis.facts"
NAMED = {"role": ROLES, "source": SOURCES, "kind": KINDS}
DAMAGED = "examples are made by tamis label; if the file is damaged, make the examples again"
PLAIN = ("group", "start", "end", "titled", "value")
ORIGIN = ("origin.doc", "origin.field", "origin.start", "origin.end")
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
    for name in PLAIN:
        columns[name] = pa.array(getattr(examples, name))
    for name, names in NAMED.items():
        codes = getattr(examples, name).astype(np.int32)
        columns[name] = pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(list(names)))
    if examples.origins:
        columns |= _origin_columns(examples)
    facts = json.dumps(dict(examples.facts), ensure_ascii=False).encode()
    table = pa.table(columns).replace_schema_metadata({**MARK, FACTS: facts})
    with new_file(Path(path), force=force) as part:
        write_parquet(table, part)


def _origin_columns(examples: Examples) -> dict[str, Any]:
    found = [examples.origins.get(number) for number in range(len(examples.queries))]
    parts = {
        "origin.doc": [each and each.doc_id for each in found],
        "origin.field": [each and each.field for each in found],
        "origin.start": [each and each.start for each in found],
        "origin.end": [each and each.end for each in found],
    }
    which = pa.array(examples.query)
    return {name: pa.array(values).take(which) for name, values in parts.items()}


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
    with reading(path, DAMAGED):
        return _examples_of(table, path)


def _examples_of(table: Any, path: Path | str) -> Examples:
    queries, query = _ids(table, "query")
    docs, doc = _ids(table, "doc")
    columns: dict[str, Any] = {name: table[name].to_numpy() for name in PLAIN}
    for name, names in NAMED.items():
        columns[name] = _codes(table, name, names, path)
    facts = json.loads(table.schema.metadata.get(FACTS, b"{}"))
    origins = _origins(table, query) if ORIGIN[0] in table.column_names else {}
    return Examples(Queries(queries), docs, query=query, doc=doc, **columns, origins=origins,
                    facts=facts)  # fmt: skip


def _table(path: Path) -> Any:
    if not path.is_file():
        raise InputError(f"there is no file {path}", hint="make examples with tamis label")
    table = read_parquet(path, hint=DAMAGED)
    missing = {"query", "doc", *PLAIN, *NAMED} - set(table.column_names)
    if (table.schema.metadata or {}).get(b"tamis") != b"examples" or missing:
        what = f"it has no column {min(missing)!r}" if missing else "it does not say that it is"
        raise InputError(
            f"{path} is no file of examples: {what}", hint="examples are made by tamis label"
        )
    origin = [name for name in ORIGIN if ORIGIN[0] in table.column_names]
    texts = ["query", "doc", *NAMED, *origin[:2]]
    numbers = [*PLAIN, *origin[2:]]
    check_columns(table, path, DAMAGED, texts=texts, numbers=numbers, nullable=origin)
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
    found = column.dictionary.to_pylist()
    strange = sorted(set(found) - set(names), key=str)
    if strange:
        raise InputError(
            f"{path} has the {name} {strange[0]!r}", hint=f"known are {', '.join(names)}"
        )
    codes = np.array([names.index(each) for each in found], np.int8)
    return codes[column.indices.to_numpy()]


def _origins(table: Any, query: Any) -> dict[int, Passage]:
    numbers, rows = np.unique(query, return_index=True)
    found = table.select(list(ORIGIN)).take(pa.array(rows)).to_pylist()
    return {
        number: Passage(row[ORIGIN[0]], 0, row[ORIGIN[2]], row[ORIGIN[3]], row[ORIGIN[1]])
        for number, row in zip(numbers.tolist(), found, strict=True)
        if row[ORIGIN[0]] is not None
    }
