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
from tamis.scorers.bag_of_words import Ints, read_bags, text_pieces
from tamis.search.build import searched_text
from tamis.text.analysis import analyzer
from tamis.types import Document, Ids

METADATA_KEY = b"tamis"
KIND = "word counts"
DAMAGED_HINT = "count the words again"


@dataclass(frozen=True, eq=False)
class WordCounts:
    """How many documents there are, and in how many of them each word occurs.

    >>> counts = WordCounts.of([Document("d1", "A fine sieve"), Document("d2", "fine, FINE!")])
    >>> counts.num_documents, counts.frequencies(["fine", "sieve", "drum"]).tolist()
    (2, [2, 1, 0])
    """

    num_documents: int
    words: Ids
    documents_of: Ints
    analyzer: str = "unicode"
    """The name of the analyzer that finds the words."""

    @classmethod
    def of(cls, documents: Iterable[Document], analyzer_name: str = "unicode") -> WordCounts:
        """Count the words of documents in one pass; memory grows with distinct words only."""
        bulk = analyzer(analyzer_name).bulk()
        counts, total = np.zeros(0, np.int64), 0
        for texts in text_pieces(map(searched_text, documents)):
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
        is_known = numbers >= 0
        counts = np.zeros(len(words), np.int32)
        counts[is_known] = self.documents_of[numbers[is_known]]
        return counts

    def idf(self, words: list[str]) -> NDArray[np.float64]:
        """ln(1 + (N - df + .5) / (df + .5)) of each of these words."""
        frequency = self.frequencies(words)
        return np.log1p((self.num_documents - frequency + 0.5) / (frequency + 0.5))

    def save(self, path: Path | str, *, force: bool = False) -> None:
        """Write a Parquet file that `WordCounts.open` reads."""
        header = {"kind": KIND, "documents": self.num_documents, "analyzer": self.analyzer}
        header["version"] = analyzer(self.analyzer).version
        columns = {"word": list(self.words), "documents": self.documents_of}
        table = pa.table(columns, pa.schema({"word": pa.string(), "documents": pa.int32()}))
        with new_file(Path(path), force=force) as temporary_path:
            write_parquet(
                table.replace_schema_metadata({METADATA_KEY: json.dumps(header)}), temporary_path
            )

    @classmethod
    def open(cls, path: Path | str) -> WordCounts:
        """Read what `save` wrote."""
        table, header = _read(Path(path))
        with reading(path, DAMAGED_HINT):
            return cls._of_table(table, header, path)

    @classmethod
    def _of_table(cls, table: pa.Table, header: dict[str, Any], path: Path | str) -> WordCounts:
        current = analyzer(header["analyzer"]).version
        if header["version"] != current:
            raise InputError(
                f"{path} counts words of the analyzer {header['analyzer']!r} version "
                f"{header['version']!r}, this tamis has {current!r}",
                hint=DAMAGED_HINT,
            )
        check_columns(table, path, DAMAGED_HINT, texts=["word"], numbers=["documents"])
        words, number_of = Ids.numbering(table.column("word").to_pylist())
        documents_of = np.zeros(len(words), np.int32)
        documents_of[number_of] = table.column("documents").to_numpy()
        return cls(header["documents"], words, documents_of, header["analyzer"])


def _read(path: Path) -> tuple[pa.Table, dict[str, Any]]:
    if not path.is_file():
        raise InputError(f"there is no file {path}", hint="is the path right?")
    table = read_parquet(path, hint=DAMAGED_HINT)
    with reading(path, DAMAGED_HINT):
        header = json.loads((table.schema.metadata or {}).get(METADATA_KEY, b"{}"))
    if not isinstance(header, dict) or header.get("kind") != KIND:
        raise InputError(f"{path} is not a file of word counts", hint="WordCounts.save writes one")
    return table, header
