"""In how many documents of a collection each word occurs: words as they are, not stemmed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tamis.collection.arrow_files import check_columns, read_parquet, reading, write_parquet
from tamis.durable import new_file
from tamis.errors import InputError
from tamis.scorers.bag_of_words import Ints, pieces, read_bags
from tamis.search.build import searched_text
from tamis.text.analysis import analyzer
from tamis.types import Document, Ids

NOTE = b"tamis"
KIND = "word counts"
COUNT_AGAIN = "count the words again"


@dataclass(frozen=True, eq=False)
class WordCounts:
    """How many documents there are, and in how many of them each word occurs.

    >>> counts = WordCounts.of([Document("d1", "A fine sieve"), Document("d2", "fine, FINE!")])
    >>> counts.documents, counts.frequencies(["fine", "sieve", "drum"]).tolist()
    (2, [2, 1, 0])
    """

    documents: int
    words: Ids
    documents_of: Ints
    analyzer: str = "unicode"
    """The name of the analyzer that finds the words."""

    @classmethod
    def of(cls, documents: Iterable[Document], analyzer_name: str = "unicode") -> WordCounts:
        """Count the words of documents in one pass; memory grows with distinct words only."""
        bulk = analyzer(analyzer_name).bulk()
        counts, total = np.zeros(0, np.int64), 0
        for texts in pieces(map(searched_text, documents)):
            bags = read_bags(bulk, texts)
            new = np.bincount(bags.words, minlength=len(bulk.terms))
            new[: len(counts)] += counts
            counts, total = new, total + len(texts)
        words, number_of = Ids.numbering(bulk.terms)
        documents_of = np.zeros(len(words), np.int32)
        documents_of[number_of] = counts
        return cls(total, words, documents_of, analyzer_name)

    def frequencies(self, words: list[str]) -> Ints:
        """In how many documents each of these words occurs."""
        numbers = self.words.numbers(words)
        known = numbers >= 0
        found = np.zeros(len(words), np.int32)
        found[known] = self.documents_of[numbers[known]]
        return found

    def idf(self, words: list[str]) -> NDArray[np.float64]:
        """ln(1 + (N - df + .5) / (df + .5)) of each of these words."""
        frequency = self.frequencies(words)
        return np.log1p((self.documents - frequency + 0.5) / (frequency + 0.5))

    def save(self, path: Path | str, *, force: bool = False) -> None:
        """Write a Parquet file that `WordCounts.open` reads."""
        note = {"kind": KIND, "documents": self.documents, "analyzer": self.analyzer}
        note["version"] = analyzer(self.analyzer).version
        columns = {"word": list(self.words), "documents": self.documents_of}
        table = pa.table(columns, pa.schema({"word": pa.string(), "documents": pa.int32()}))
        with new_file(Path(path), force=force) as part:
            write_parquet(table.replace_schema_metadata({NOTE: json.dumps(note)}), part)

    @classmethod
    def open(cls, path: Path | str) -> WordCounts:
        """Read what `save` wrote."""
        table, note = _read(Path(path))
        with reading(path, COUNT_AGAIN):
            return cls._of_table(table, note, path)

    @classmethod
    def _of_table(cls, table: pa.Table, note: dict[str, Any], path: Path | str) -> WordCounts:
        current = analyzer(note["analyzer"]).version
        if note["version"] != current:
            raise InputError(
                f"{path} counts words of the analyzer {note['analyzer']!r} version "
                f"{note['version']!r}, this tamis has {current!r}",
                hint=COUNT_AGAIN,
            )
        check_columns(table, path, COUNT_AGAIN, texts=["word"], numbers=["documents"])
        words, number_of = Ids.numbering(table.column("word").to_pylist())
        documents_of = np.zeros(len(words), np.int32)
        documents_of[number_of] = table.column("documents").to_numpy()
        return cls(note["documents"], words, documents_of, note["analyzer"])


def _read(path: Path) -> tuple[pa.Table, dict[str, Any]]:
    if not path.is_file():
        raise InputError(f"there is no file {path}", hint="is the path right?")
    table = read_parquet(path, hint=COUNT_AGAIN)
    with reading(path, COUNT_AGAIN):
        note = json.loads((table.schema.metadata or {}).get(NOTE, b"{}"))
    if not isinstance(note, dict) or note.get("kind") != KIND:
        raise InputError(f"{path} is not a file of word counts", hint="WordCounts.save writes one")
    return table, note
