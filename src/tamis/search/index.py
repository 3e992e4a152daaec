"""The inverted index on disk: build, open, add to, delete from, merge, verify.

tamis.json     that this is an index, and how texts are analysed
commit.json    which of the folders beside it are the index now
segment-N/     some documents and their postings, never changed
deleted-N/     which documents of a segment are gone, never changed
vectors-N/     the embeddings of a segment's documents, never changed
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from tamis import durable, manifest
from tamis.collection.objects import AnyDocuments, stream_documents
from tamis.errors import InputError, TamisError, check_path
from tamis.registry import explain_index
from tamis.search.build import BASE_MEMORY
from tamis.search.commit import (
    KIND,
    LAYOUT,
    Commit,
    commit_bytes,
    commit_stamp,
    expect_index,
    note_digest,
    read_commit,
    remove_unnamed,
    write_commit,
)
from tamis.search.defaults import default_source
from tamis.search.dense import DenseSource, check_complete, check_encoder
from tamis.search.dense_encode import (
    carry_embeddings,
    encode_missing,
    make_job,
    remove_work,
    without_embeddings,
)
from tamis.search.embeddings import EmbeddingModel
from tamis.search.hits import Hit, lexical_score, make_hit, matching_passage
from tamis.search.rankings import BM25, QueryLikelihood
from tamis.search.segment_writer import append, delete_documents
from tamis.search.snapshot import Snapshot, open_segment
from tamis.search.sources import IndexSource
from tamis.text.analysis import Analyzer, analyzer
from tamis.text.passages import Tokens
from tamis.types import Document, Encoder, Ids, Queries, Query, Run, Top
from tamis.types.conditions import Where, as_conditions
from tamis.types.explanation import Explanation

Result = TypeVar("Result")
DEFAULT_MEMORY = 1 << 30


class Index:
    """An inverted index; also the `TermStatistics` of its collection.

    >>> from tempfile import mkdtemp
    >>> from tamis.types import Queries, Query
    >>> path = Path(mkdtemp()) / "index"
    >>> index = Index.build([Document("d1", "sieves"), Document("d2", "a drum")], path)
    >>> (index.bm25() % 10)(Queries.of([Query("q1", "sieve")]))["q1"].ids
    ['d1']
    """

    def __init__(self, path: Path, snapshot: Snapshot, analysis: Analyzer) -> None:
        """Use `Index.open` or `Index.build`."""
        self.path, self.snapshot, self.analyzer = path, snapshot, analysis
        self._stamp: tuple[int, int] | None = None

    @classmethod
    def open(cls, path: Path | str, analyzer: Analyzer | None = None) -> Index:
        """Open an index; one whose analyzer is a Python function needs that analyzer again."""
        check_path(path, "an index")
        path = Path(path)
        expect_index(path)
        return cls(path, _open_snapshot(path), _analyzer_of(path, analyzer))

    @classmethod
    def build(
        cls,
        documents: AnyDocuments,
        path: Path | str,
        analyzer: Analyzer | str = "english",
        memory: int = DEFAULT_MEMORY,
        force: bool = False,
    ) -> Index:
        """Build an index of documents, each with its own id; killed, nothing is left of it.

        `documents` are `Document`s, strings, dictionaries, (id, text) pairs, a DataFrame, a
        collection or the path of one.
        """
        check_path(path, "an index")
        path, analysis = Path(path), _find_analyzer(analyzer)
        check_memory(memory)
        with durable.new_folder(path, force=force) as folder:
            facts = {"name": analysis.name, "version": analysis.version}
            manifest.write_manifest(folder, KIND, LAYOUT, analyzer=facts)
            empty = Commit((), 1, note_digest(folder))
            write_commit(
                folder, append(folder, empty, stream_documents(documents), analysis, memory)
            )
        return cls.open(path, analysis)

    def add(self, documents: AnyDocuments, memory: int = DEFAULT_MEMORY) -> None:
        """Add documents; one with a known id takes the place of the one that had it.

        Strings alone are refused: the ids that `build` gives them would replace others.
        """
        check_memory(memory)
        with durable.locked(self.path):
            commit = self._begin()
            added = stream_documents(documents, number=False)
            new = append(self.path, commit, added, self.analyzer, memory)
            entries = [entry for entry in new.segments if entry.folder not in _folders(commit)]
            count = sum(open_segment(self.path, entry).size for entry in entries)
            self._end(replace(new, num_changes=commit.num_changes + count))

    def update(
        self,
        documents: AnyDocuments,
        *,
        delete_missing: bool = True,
        delete: Iterable[str] = (),
        keep: AbstractSet[str] = frozenset(),
        max_deleted: float = 1.0,
        encoder: Encoder | None = None,
        memory: int = DEFAULT_MEMORY,
    ) -> Changes:
        """Make the index hold these documents: new ones are added, changed ones replaced, and
        those that are not among them deleted if `delete_missing`; `delete` names others to delete.
        `keep` are ids that stay although they are missing, such as those of files that cannot be
        read just now. It is refused where more than the share `max_deleted` would be missing.

        One step: killed, the index is what it was. What did not change is not written, and
        not encoded, again. Where the index has embeddings, `encoder` must be what made them.

        >>> from tempfile import mkdtemp
        >>> index = Index.build({"a": "a drum", "b": "a net"}, Path(mkdtemp()) / "index")
        >>> index.update({"b": "a net", "c": "a sieve"})
        Changes(added=1, replaced=0, deleted=1, unchanged=1)
        """
        check_memory(memory)
        with durable.locked(self.path):
            commit = self._begin()
            difference = _Difference(self.snapshot)
            changed = difference.changed(stream_documents(documents, number=False))
            new = append(self.path, commit, changed, self.analyzer, memory)
            gone = Ids.of({*delete} & {*self.snapshot.live_ids()})
            if delete_missing:
                missing = difference.missing(keep)
                _check_missing(len(missing), self.num_documents, max_deleted)
                gone = gone.union(missing)
            new = delete_documents(self.path, new, gone)
            changes = replace(difference.changes, deleted=len(gone))
            new = replace(new, num_changes=commit.num_changes + changes.total)
            if self.snapshot.embeddings and changes.total:
                new = self._encode_new(new, encoder)
            if changes.total:
                self._end(new)
                remove_work(self.path)
        return changes

    def _encode_new(self, commit: Commit, encoder: Encoder | None) -> Commit:
        """The commit with the embeddings of its new segments."""
        if encoder is None:
            raise InputError(
                f"{self.path} has embeddings, and nothing to encode new documents with",
                hint="hand in the encoder that made them: encoder=…",
            )
        segments = [open_segment(self.path, entry) for entry in commit.segments]
        model = self.snapshot.embeddings[0].model
        job = make_job(encoder, model, None, None, self.snapshot.embeddings)
        return encode_missing(self.path, commit, segments, job)

    @property
    def num_changes(self) -> int:
        """How many documents were added, replaced or deleted since the index was built."""
        return self.snapshot.commit.num_changes

    @property
    def is_current(self) -> bool:
        """Whether no commit was written since `refresh` looked last."""
        return self._stamp is not None and commit_stamp(self.path) == self._stamp

    def refresh(self) -> bool:
        """Take up what another process has changed; whether there was something.

        Cheap where there is nothing: one look at the time of a file.
        """
        stamp = commit_stamp(self.path)
        if self.is_current:
            return False
        changed = read_commit(self.path) != self.snapshot.commit
        if changed:
            self.snapshot = _open_snapshot(self.path)
        self._stamp = stamp
        return changed

    def delete(self, ids: Iterable[str]) -> int:
        """Delete documents by id; how many of the ids were there."""
        doc_ids = Ids.of(ids)
        with durable.locked(self.path):
            commit = self._begin()
            before = self.num_documents
            new = delete_documents(self.path, commit, doc_ids)
            count = before - Snapshot(self.path, new).total("documents")
            self._end(replace(new, num_changes=commit.num_changes + count))
        return count

    def merge(self, memory: int = DEFAULT_MEMORY) -> None:
        """Write what is left of all segments as few new ones: as if built anew."""
        check_memory(memory)
        with durable.locked(self.path):
            commit = self._begin()
            if self.snapshot.embeddings:
                check_complete(self)
            empty = replace(commit, segments=())
            documents = self.snapshot.documents()
            merged = append(self.path, empty, documents, self.analyzer, memory)
            self._end(carry_embeddings(self.path, merged, self.snapshot))

    def encode(
        self,
        encoder: Encoder,
        model: EmbeddingModel | None = None,
        passages: str | None = None,
        *,
        tokens: Tokens | None = None,
        force: bool = False,
    ) -> None:
        """Encode the documents that have no embeddings yet; a killed call is resumed by the next.

        One embedding per document, or one per passage if `passages` says how to split (default: as
        the documents encoded before); `tokens` measures a text for passages in tokens. All
        documents must be encoded alike: `force` encodes all again.
        """
        with durable.locked(self.path):
            commit = self._begin()
            existing = [] if force else self.snapshot.embeddings
            job = make_job(encoder, model, passages, tokens, existing)
            commit = without_embeddings(commit) if force else commit
            self._end(encode_missing(self.path, commit, self.snapshot.segments, job))
            remove_work(self.path)

    def drop_embeddings(self) -> None:
        """Remove all embeddings, and what a stopped encoding has left."""
        with durable.locked(self.path):
            self._end(without_embeddings(self._begin()))
            remove_work(self.path)

    def _begin(self) -> Commit:
        """The state to change, which another process may have written; what was left is removed."""
        commit = read_commit(self.path)
        remove_unnamed(self.path, commit)
        if commit != self.snapshot.commit:
            self.snapshot = Snapshot(self.path, commit)
        return commit

    def _end(self, commit: Commit) -> None:
        """Make this the state of the index, then remove what it does not need."""
        write_commit(self.path, commit)
        self.snapshot = Snapshot(self.path, commit)
        remove_unnamed(self.path, commit)

    def search(self, words: str, top: int = 10, where: Where = ()) -> list[Hit]:
        """The best documents for some words, by the ranking tuned last, else by BM25.

        The passage of a hit is the one with the most of the words.
        `where` are conditions on fields that all must hold, such as `author=ada`.

        >>> from tempfile import mkdtemp
        >>> index = Index.build(["a drum sieve", "a net"], Path(mkdtemp()) / "index")
        >>> [(hit.id, hit.text) for hit in index.search("sieves")]
        [('0', 'a drum sieve')]
        """
        if not isinstance(words, str):
            raise InputError(
                f"words to search for are a string, not of type {type(words).__name__}",
                hint="search many queries into a run: index.bm25()(queries)",
            )
        source = default_source(self).where(*as_conditions(where))
        run = source.search(Queries.of([Query("words", words)]), Top(top).k)
        return self.hits(run, lexical_score(run.score))

    def explain(
        self,
        query: str,
        doc_id: str | None = None,
        other: str | None = None,
        where: Where = (),
    ) -> Explanation:
        """Why a document stands where it stands for a query, the first hit by default: what each
        term brings, and the score without each matched word. With an `other` document, by what
        the two differ. `where` are the conditions of the search.

        >>> from tempfile import mkdtemp
        >>> index = Index.build(["a drum sieve", "a net"], Path(mkdtemp()) / "index")
        >>> [(part.term, part.tf) for part in index.explain("sieves").terms]
        [('siev', 1)]
        """
        return explain_index(self, query, doc_id, other, where)

    def hits(self, run: Run, scores: ArrayLike) -> list[Hit]:
        """The hits of a run of one query, whose rows have these `scores` from 0 to 1."""
        terms = self.analyzer.terms((run.queries.texts or ("",))[0])
        hits: list[Hit] = []
        rows = zip(run[run.queries.ids[0]], np.asarray(scores).tolist(), strict=True)
        snapshot = self.snapshot
        for (name, raw_score), score in rows:
            document = snapshot.find(name)
            if document is None:  # deleted since it was found
                continue
            passage = matching_passage(document, terms, self.analyzer)
            rank = len(hits) + 1
            hits.append(make_hit(document, passage, rank=rank, score=score, raw_score=raw_score))
        return hits

    def bm25(self, k1: float = 0.9, b: float = 0.4, threads: int | None = None) -> IndexSource:
        """The index searched by BM25."""
        return IndexSource(self, BM25(k1, b), threads=threads)

    def ql(self, mu: float = 1000, threads: int | None = None) -> IndexSource:
        """The index searched by query likelihood with Dirichlet smoothing."""
        return IndexSource(self, QueryLikelihood(mu), threads=threads)

    def dense(self, encoder: Encoder, threads: int | None = None) -> DenseSource:
        """The index searched by the embeddings of its documents; `encoder` encodes the queries."""
        check_complete(self)
        check_encoder(self, encoder)
        return DenseSource(self, encoder, threads)

    @property
    def tuned(self) -> Mapping[str, Any]:
        """What was tuned on this index, by name, and under `ranking` which ranking last."""
        return self.snapshot.commit.tuned

    def record_tuned(self, record: Mapping[str, Any], on: str = "bm25") -> None:
        """Keep a choice of parameters (`Tuning.record()`); RM3 was tuned `on` this ranking."""
        what = record["ranking"]
        with durable.locked(self.path):
            commit = self._begin()
            tuned = {**commit.tuned, what: dict(record)}
            if what == "rm3":
                tuned[what]["on"] = on
            else:
                tuned["ranking"] = what
            self._end(replace(commit, tuned=tuned))

    @property
    def num_documents(self) -> int:
        """How many documents there are."""
        return self.snapshot.total("documents")

    @property
    def num_documents_without_terms(self) -> int:
        """How many documents have no term, such as empty ones: no word finds them."""
        return self.num_documents - self.snapshot.total("with_terms")

    @property
    def total_terms(self) -> int:
        """How many terms all documents have together."""
        return self.snapshot.total("total_terms")

    @property
    def distinct_terms(self) -> int:
        """How many different terms the documents have."""
        return int((self.snapshot.lexicon.documents_of > 0).sum())

    def document_frequency(self, term: str) -> int:
        """In how many documents the term occurs."""
        (number,) = self.snapshot.lexicon.numbers([term])
        return int(self.snapshot.lexicon.documents_of[number]) if number >= 0 else 0

    def collection_frequency(self, term: str) -> int:
        """How often the term occurs in all documents together."""
        (number,) = self.snapshot.lexicon.numbers([term])
        return int(self.snapshot.lexicon.occurrences[number]) if number >= 0 else 0

    def document_vector(self, doc_id: str) -> Mapping[str, int]:
        """How often each term occurs in one document; `KeyError` where there is none."""
        return self.snapshot.term_vector(doc_id)

    def score_text(self, query: str, text: str) -> float:
        """The BM25 score of any text; `index.ql().score_text` and the like for other rankings."""
        return self.bm25().score_text(query, text)

    def document(self, doc_id: str) -> Document:
        """A document by its id; `KeyError` where there is none."""
        return self.snapshot.document(doc_id)

    def __iter__(self) -> Iterator[Document]:
        return self.snapshot.documents()

    def __len__(self) -> int:
        return self.num_documents

    def __contains__(self, doc_id: object) -> bool:
        ids = self.snapshot.ids
        return doc_id in ids and bool(self.snapshot.places[0][ids.number(str(doc_id))] >= 0)

    def __repr__(self) -> str:
        segments = len(self.snapshot.segments)
        return f"<Index {self.path}: {self.num_documents:,} documents in {segments} segments>"


@dataclass(frozen=True)
class Changes:
    """What an update did to how many documents."""

    added: int = 0
    replaced: int = 0
    deleted: int = 0
    unchanged: int = 0

    @property
    def total(self) -> int:
        """How many documents are not as they were."""
        return self.added + self.replaced + self.deleted


class _Difference:
    """How a collection differs from an index, found while it is gone through once."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.changes = Changes()
        self._snapshot = snapshot
        self._seen: set[str] = set()

    def changed(self, documents: Iterable[Document]) -> Iterator[Document]:
        """The documents that the index has not, or has otherwise."""
        added = replaced = unchanged = 0
        for document in documents:
            if document.id in self._seen:
                raise InputError(
                    f"document id {document.id!r} occurs twice",
                    hint="give every document its own id",
                )
            self._seen.add(document.id)
            indexed = self._snapshot.find(document.id)
            if indexed == document:
                unchanged += 1
            else:
                added, replaced = added + (indexed is None), replaced + (indexed is not None)
                yield document
            self.changes = Changes(added, replaced, 0, unchanged)
        self.changes = Changes(added, replaced, 0, unchanged)

    def missing(self, keep: AbstractSet[str]) -> Ids:
        """The documents of the index that did not come, but for those to `keep`."""
        present = self._seen | keep
        return Ids.of(name for name in self._snapshot.live_ids() if name not in present)


def _check_missing(missing: int, documents: int, max_deleted: float) -> None:
    if missing and missing > max_deleted * documents:
        raise InputError(
            f"{missing:,} of {documents:,} documents are not in the collection and would be "
            "deleted; nothing was changed",
            hint="is it the right collection? delete them: --sync; only add to the others: "
            "--no-sync",
        )


def _folders(commit: Commit) -> set[str]:
    return {entry.folder for entry in commit.segments}


def verify(path: Path) -> None:
    """Read every byte of an index; `DamagedError` names the first file that was changed."""
    expect_index(path)
    _of_one_state(path, lambda: _verify(_open_snapshot(path)), lambda _: None)


def _verify(snapshot: Snapshot) -> None:
    for segment in snapshot.segments:
        segment.verify()
    for embeddings in snapshot.embeddings:
        embeddings.files.verify()


def check_memory(memory: int) -> None:
    """Refuse to build in less memory than the program itself takes."""
    if memory < BASE_MEMORY + (64 << 20):
        raise InputError(f"{memory:,} bytes of memory are too few", hint="give it 400 MB at least")


def _find_analyzer(name_or_analyzer: Analyzer | str) -> Analyzer:
    return analyzer(name_or_analyzer) if isinstance(name_or_analyzer, str) else name_or_analyzer


def _analyzer_of(path: Path, analysis: Analyzer | None) -> Analyzer:
    """The analyzer that the index was built with, in the same version."""
    recorded = manifest.expect(path, KIND, LAYOUT)["analyzer"]
    if analysis is None:
        try:
            analysis = analyzer(recorded["name"])
        except InputError as error:
            raise InputError(
                f"{path} was built with the analyzer {recorded['name']!r}, which tamis has not",
                hint="hand that analyzer to Index.open",
            ) from error
    if (analysis.name, analysis.version) != (recorded["name"], recorded["version"]):
        raise InputError(
            f"{path} was built with the analyzer {recorded['name']!r} version "
            f"{recorded['version']!r}, not {analysis.name!r} version {analysis.version!r}",
            hint="search with the analyzer it was built with, or build it again",
        )
    return analysis


def _open_snapshot(path: Path) -> Snapshot:
    """The state of the index now."""
    return _of_one_state(path, lambda: Snapshot(path, read_commit(path)), lambda s: s.damage)


def _of_one_state(
    path: Path, read: Callable[[], Result], damage: Callable[[Result], object]
) -> Result:
    """What `read` gives of one state of the index; it reads again where it failed, or found damage,
    because a writer removed what it was reading.
    """
    while True:
        state = commit_bytes(path)
        try:
            result = read()
        except (TamisError, OSError):
            if commit_bytes(path) == state:
                raise
        else:
            if not damage(result) or commit_bytes(path) == state:
                return result
