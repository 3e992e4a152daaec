"""What the verbs that label with scores are given: documents, queries, judgements, a scorer."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from tamis.errors import InputError

if TYPE_CHECKING:
    from tamis.collection.base import Collection, Faults
    from tamis.models import Ranker
    from tamis.search import Index
    from tamis.splits import HeldOut
    from tamis.types import Qrels, Queries

RankingName = Literal["bm25", "ql"]


@dataclass(frozen=True, eq=False)
class Given:
    """What a verb was given to label."""

    name: str
    collection: Collection | None
    index: Index | None
    queries: Queries | None
    """Those of a file."""
    splits: Mapping[str, Qrels]
    split: str | None
    skip: bool
    own: Mapping[str, Qrels]
    """The collection's judgements, whatever files stand in for them."""
    ranking: RankingName = "bm25"
    """What searches the index."""

    @property
    def documents(self) -> Any:
        """Where texts are read."""
        return self.index if self.index is not None else self.collection

    @property
    def faults(self) -> Faults:
        """The bad lines of the collection that were skipped."""
        from tamis.collection.base import Faults

        return self.collection.faults if self.collection else Faults()

    def judged(self) -> Qrels:
        """The judgements of the split that was asked for."""
        if self.split is not None and self.split in self.splits:
            return self.splits[self.split]
        known = ", ".join(self.splits) or "none"
        raise InputError(
            f"{self.name} has no judgements of a split {self.split!r}",
            hint=f"splits here: {known}; others: --qrels {self.split or 'train'}=FILE",
        )

    @property
    def known_queries(self) -> Queries | None:
        """The queries of a file, else those of the collection."""
        return self.queries or (self.collection.queries if self.collection else None)

    @cached_property
    def held_out(self) -> HeldOut:
        """The queries of every test split, of the files and of the collection itself."""
        from tamis.splits import HeldOut

        files = HeldOut.of(self.splits, self.known_queries)
        own = HeldOut.of(self.own, self.collection.queries if self.collection else None)
        return HeldOut(
            tuple(dict.fromkeys((*files.splits, *own.splits))),
            files.ids.union(own.ids),
            tuple(dict.fromkeys((*files.texts, *own.texts))),
            files.hashes | own.hashes,
        )


def open_given(
    name: str,
    index: Path | None,
    queries: str | None,
    qrels: list[str] | None,
    split: str | None,
    on_error: Literal["raise", "skip"],
) -> Given:
    """Open what is named.

    Files of judgements stand in for the collection's, but its test queries stay test queries.
    """
    from tamis.collection.judgements import read_qrels
    from tamis.collection.look import look
    from tamis.collection.opening import is_id, join_queries, open_collection, read_queries
    from tamis.collection.querylog import refuse_line_numbers
    from tamis.durable import folder_exists
    from tamis.search import Index
    from tamis.splits import is_test
    from tamis.types import Queries

    if not is_id(name) and folder_exists(Path(name)) and look(name) == "index":
        if index is not None:
            raise typer.BadParameter("-c is an index already: leave --index out")
        index, collection = Path(name), None
    else:
        collection = open_collection(name, on_error=on_error)
    opened = None if index is None else Index.open(index)
    own = dict(collection.qrels) if collection else {}
    files = {part[0]: part[1] for part in (_named(each, split) for each in qrels or [])}
    told = {part: read_qrels(file) for part, file in files.items()}
    told = {part: own[part] for part in own if is_test(part) or not told} | told
    asked = None if queries is None else read_queries(queries)
    for folder in (file for file in files.values() if Path(file).is_dir()):
        known = asked or (collection.queries if collection else Queries.of([]))
        asked = join_queries(known, read_queries(folder), folder)
    if asked is not None:
        refuse_line_numbers(asked.ids, told, files | dict.fromkeys(own, name), queries)
    return Given(name, collection, opened, asked, told, split, on_error == "skip", own)


def _named(given: str, split: str | None) -> tuple[str, str]:
    """A split and its file; without a name it is what the file is called where that is a test,
    else the split that is asked for.
    """
    from tamis.collection.judgements import the_split
    from tamis.splits import is_test

    part, _, file = given.partition("=")
    if file:
        return part, file
    is_folder = Path(given).is_dir()
    stem = the_split(Path(given))[0] if is_folder else Path(given).name.split(".")[0]
    return stem if is_test(stem) else split or "train", given


def lexical(given: Given, k1: float, b: float) -> Ranker:
    """BM25 under the statistics of the index."""
    from tamis.models import Ranker
    from tamis.scorers.lexical import Lexical
    from tamis.search.rankings import BM25

    if given.index is None:
        raise InputError(
            "lexical scores need the statistics of an index",
            hint="tamis index, then --index INDEX",
        )
    return Ranker(Lexical(given.index, BM25(k1, b)), f"lexical k1={k1:g} b={b:g}", None)


def open_any_ranker(
    name: str,
    given: Given,
    threads: int | None,
    service_model: str = "",
    key_variable: str | None = None,
) -> Ranker:
    """A model, or a service where the name is an address."""
    from tamis.models import Ranker, open_ranker

    if not name.startswith(("http://", "https://")):
        if service_model or key_variable:
            raise typer.BadParameter("--service-model and --key-variable are for a service")
        documents = given.documents if given.index else given.documents.documents
        return open_ranker(name, threads=threads, documents=documents)
    from tamis.labels.rerank_service import RerankService

    key = os.environ.get(key_variable, "") if key_variable else ""
    if key_variable and not key:
        raise InputError(
            f"the environment has no variable {key_variable}",
            hint=f"export {key_variable}=… with the key of the service",
        )
    service = RerankService(name, service_model, key, threads=threads or 1)
    return Ranker(service, f"{name} {service_model}".strip(), service.identity)
