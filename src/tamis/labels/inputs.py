"""What is labelled: documents, queries, judgements by split, and which queries are held out.

`open_inputs` takes paths or objects; `selection` says which queries are labelled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from tamis.collection.base import Collection, Faults
from tamis.collection.detection import detect_format
from tamis.collection.judgements import the_split
from tamis.collection.objects import AnyDocuments, AnyQueries, as_documents, as_queries
from tamis.collection.querylog import refuse_line_numbers
from tamis.collection.readers import is_id, join_queries, open_collection, read_queries
from tamis.collection.run_objects import as_qrels
from tamis.collection.runs import read_run
from tamis.durable import folder_exists
from tamis.errors import InputError
from tamis.search import Index
from tamis.splits import HeldOut, is_test
from tamis.types import Qrels, Queries, Run

RankingName = Literal["bm25", "ql"]
OnError = Literal["raise", "skip"]
Judgements = Qrels | Mapping[str, Any] | str | Path
"""Judgements: ours, grades by query and document, a file, or any of these by split."""
DEFAULT_SPLIT = "train"
"""The split of judgements that do not say which they are."""


@dataclass(frozen=True, eq=False)
class LabelInputs:
    """Documents with what there is beside them, from which examples are made.

    >>> inputs = open_inputs(["A drum sieve."], queries=["sieve"], qrels={"q": {"0": 1}})
    >>> len(inputs.queries), list(inputs.splits), len(inputs.held_out.ids)
    (1, ['train'], 0)
    """

    name: str
    collection: Collection | None
    index: Index | None
    queries: Queries | None
    """Those that were handed in beside the collection."""
    splits: Mapping[str, Qrels]
    split: str | None
    """The split that was named."""
    own: Mapping[str, Qrels]
    """The collection's judgements, whatever others stand in for them."""
    on_error: OnError = "raise"
    ranking: RankingName = "bm25"
    """What searches the index for candidates."""
    run: Run | None = None
    """The candidates, where they are not searched for."""
    run_name: str = ""

    @property
    def documents(self) -> Index | Collection:
        """Where texts are read."""
        if self.index is not None:
            return self.index
        assert self.collection is not None
        return self.collection

    @property
    def faults(self) -> Faults:
        """The bad lines of the collection that were skipped."""
        return self.collection.faults if self.collection else Faults()

    @property
    def available_queries(self) -> Queries | None:
        """The queries that were handed in, else those of the collection."""
        return self.queries or (self.collection.queries if self.collection else None)

    @cached_property
    def held_out(self) -> HeldOut:
        """The queries of every test split, of the files and of the collection itself."""
        files = HeldOut.of(self.splits, self.available_queries)
        own = HeldOut.of(self.own, self.collection.queries if self.collection else None)
        return HeldOut(
            tuple(dict.fromkeys((*files.splits, *own.splits))),
            files.ids.union(own.ids),
            tuple(dict.fromkeys((*files.texts, *own.texts))),
            files.hashes | own.hashes,
        )

    def judged(self) -> Qrels:
        """The judgements of the split that was named."""
        if self.split is not None and self.split in self.splits:
            return self.splits[self.split]
        splits = ", ".join(self.splits) or "none"
        raise InputError(
            f"{self.name} has no judgements of a split {self.split!r}",
            hint=f"available splits: {splits}; "
            f"for others: --qrels {self.split or DEFAULT_SPLIT}=FILE",
        )

    def with_candidates(
        self, run: Run | str | Path | None, ranking: RankingName = "bm25", run_name: str = ""
    ) -> LabelInputs:
        """The same with the candidates of a run, or with what searches for them."""
        if isinstance(run, str | Path):
            run_name = str(run)
            run = read_run(run, Faults(skip=self.on_error == "skip"))
        return replace(self, run=run, run_name=run_name or "a run", ranking=ranking)


def open_inputs(
    documents: AnyDocuments | Index | LabelInputs,
    index: Index | str | Path | None = None,
    queries: AnyQueries | None = None,
    qrels: Judgements | None = None,
    split: str | None = None,
    on_error: OnError = "raise",
) -> LabelInputs:
    """Open documents, queries and judgements; inputs that are open stay as they are.

    Judgements that are handed in stand in for the collection's, but its test queries stay test
    queries. Beside an index, a whole collection in place of queries brings its judgements and
    splits along.
    """
    if isinstance(documents, LabelInputs):
        return documents
    if _is_index(documents) and _is_collection(queries):
        documents, index, queries = queries, documents, None  # type: ignore[assignment]
    elif _is_index(documents) and index is not None:
        raise InputError(
            "the documents are an index already", hint="leave --index out (index=None)"
        )
    if _is_index(documents):
        return _assemble(
            _name(documents), None, _open_index(documents), queries, qrels, split, on_error
        )
    collection = _collection(documents, on_error)
    open_index = None if index is None else _open_index(index)
    return _assemble(_name(documents), collection, open_index, queries, qrels, split, on_error)


def _assemble(
    name: str,
    collection: Collection | None,
    index: Index | None,
    queries: AnyQueries | None,
    qrels: Judgements | None,
    split: str | None,
    on_error: OnError,
) -> LabelInputs:
    own = dict(collection.qrels) if collection else {}
    judged_by_split = {} if qrels is None else by_split(qrels, split)
    splits = {split_name: as_qrels(judged) for split_name, judged in judged_by_split.items()}
    splits = {
        split_name: own[split_name] for split_name in own if is_test(split_name) or not splits
    } | splits
    texts = None if queries is None else as_queries(queries)
    for folder in (judged for judged in judged_by_split.values() if _is_folder(judged)):
        known_queries = texts or (collection.queries if collection else Queries.of([]))
        texts = join_queries(known_queries, read_queries(folder), folder)
    if texts is not None:
        files = {
            split_name: _name(judged, "the qrels") for split_name, judged in judged_by_split.items()
        }
        log = queries if isinstance(queries, str | Path) else None
        refuse_line_numbers(texts.ids, splits, files | dict.fromkeys(own, name), log)
    return LabelInputs(name, collection, index, texts, splits, split, own, on_error)


def by_split(qrels: Judgements, split: str | None = None) -> Mapping[str, Any]:
    """Judgements by split; those without a name are of the split that is asked for, or to train
    on, unless their file is called a test.

    >>> list(by_split({"q1": {"d1": 1}})), list(by_split({"dev": "dev.txt"}))
    (['train'], ['dev'])
    >>> list(by_split("test.txt")), list(by_split("judged.txt", "dev"))
    (['test'], ['dev'])
    """
    if isinstance(qrels, str | Path):
        return {split_of_file(qrels, split): qrels}
    grades_by_query = isinstance(qrels, Mapping) and all(
        isinstance(value, Mapping) and not any(isinstance(v, Mapping) for v in value.values())
        for value in qrels.values()
    )
    if isinstance(qrels, Mapping) and not grades_by_query:
        return qrels
    return {split or DEFAULT_SPLIT: qrels}


def split_of_file(path: str | Path, split: str | None = None) -> str:
    """The split of a file of judgements without a name for it: what the file is called where
    that is a test, else the split that is asked for.

    >>> split_of_file("qrels.test.txt"), split_of_file("judged.txt"), split_of_file("a.txt", "dev")
    ('qrels.test', 'train', 'dev')
    """
    path = Path(path)
    name = the_split(path)[0] if path.is_dir() else path.stem
    return name if is_test(name) else split or DEFAULT_SPLIT


def _is_folder(judged: Any) -> bool:
    """Whether judgements lie in a folder, which has their queries too."""
    return isinstance(judged, str | Path) and Path(judged).is_dir()


def _is_index(documents: Any) -> bool:
    if isinstance(documents, str | Path) and not is_id(documents):
        return folder_exists(Path(documents)) and detect_format(documents) == "index"
    return isinstance(documents, Index)


def _is_collection(queries: Any) -> bool:
    """Whether queries are those of a whole collection: a folder, an id, or one that is open."""
    if isinstance(queries, str | Path):
        return is_id(queries) or folder_exists(Path(queries))
    return isinstance(queries, Collection)


def _open_index(index: Any) -> Index:
    return index if isinstance(index, Index) else Index.open(index)


def _collection(documents: Any, on_error: OnError) -> Collection:
    if isinstance(documents, Collection):
        return documents
    if isinstance(documents, str | Path):
        return open_collection(documents, on_error=on_error)
    return Collection("documents", "objects", as_documents(documents))


def _name(named_input: Any, otherwise: str = "documents") -> str:
    if isinstance(named_input, Index):
        return str(named_input.path)
    if isinstance(named_input, Collection):
        return named_input.name
    return str(named_input) if isinstance(named_input, str | Path) else otherwise
