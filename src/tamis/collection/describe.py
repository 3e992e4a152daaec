"""What is in a collection, a run or a set of judgements, and what is suspicious about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from numpy.typing import ArrayLike

from tamis.collection.base import Collection, Faults
from tamis.collection.conversion import Request, open_requested
from tamis.collection.formats import contents_of
from tamis.collection.judgements import read_qrels
from tamis.collection.loss_notes import counted
from tamis.collection.readers import read_queries
from tamis.collection.runs import read_run, read_spec
from tamis.durable import Progress
from tamis.text.near import near_duplicates
from tamis.text.passages import PassageSpec, Tokens
from tamis.text.passages import split as split_document
from tamis.types import Document, Ids, Passage, Qrels, Queries, Run, Spec
from tamis.types._string_numbers import Interner
from tamis.types._strings import pack

IDS_IN_BATCH = 8192
LONG_DOCUMENT_WORDS = 100_000
MAX_SHOWN_LEAKS = 5


class ByName(dict[str, Any]):
    """Facts whose keys are names that the user owns (splits, files), shown as they are."""


@dataclass(frozen=True)
class Facts:
    """Facts by name (sections hold facts of their own), and sentences on what looks wrong.

    Keys are snake_case; where the user chose them, they are in a `ByName`.
    """

    facts: Mapping[str, Any]
    warnings: tuple[str, ...] = ()
    kind: str = "collection"
    """What the facts are of: `collection`, `queries`, `qrels`, `run`, `model`, …"""

    def with_faults(self, faults: Faults) -> Facts:
        """The same with the bad lines that were skipped, if any."""
        if not faults.count:
            return self
        skipped = tuple(f"skipped: {fault}" for fault in faults.first)
        facts = {**self.facts, "bad_lines_skipped": faults.count}
        return Facts(facts, self.warnings + skipped, self.kind)


def distribution(values: ArrayLike) -> dict[str, float]:
    """Where the values of a column lie; infinite ones are left aside.

    >>> distribution([1, 2, 3, 4, 90])
    {'mean': 20, 'min': 1, 'median': 3, 'p90': 55.6, 'max': 90}
    """
    column = np.asarray(values, np.float64)
    column = column[np.isfinite(column)]
    if len(column) == 0:
        return {}
    least, median, high, most = np.percentile(column, [0, 50, 90, 100]).tolist()
    points = {"mean": column.mean(), "min": least, "median": median, "p90": high, "max": most}
    return {name: _short(float(value)) for name, value in points.items()}


def _short(value: float) -> float:
    return int(value) if value.is_integer() else round(value, 1)


def describe_any(request: Request, format: str) -> Facts:
    """What a request is about: a collection, queries, judgements or a run, of this format."""
    contents = contents_of(format)
    if not contents or {"collection", "documents"} & {*contents}:
        return describe_collection(open_requested(request))
    if contents == ("queries", "qrels"):
        judged = open_requested(request)
        facts = describe_judged(judged.queries, judged.qrels)
        return replace(facts, kind="judged queries").with_faults(judged.faults)
    path, faults = Path(request.source), Faults(skip=request.skip)
    if "run" in contents:
        facts, kind = describe_run(read_run(path, faults), read_spec(path)), "run"
    elif "qrels" in contents:
        facts, kind = describe_qrels(read_qrels(path, faults)), "qrels"
    else:
        queries = read_queries(path, request.format, faults=faults)
        facts, kind = describe_queries(queries), "queries"
    return replace(facts, kind=kind).with_faults(faults)


def describe_collection(collection: Collection) -> Facts:
    """Documents, queries and judgements of a collection; goes through every document once."""
    documents, ids, warnings = _documents(collection)
    facts: dict[str, Any] = {
        "name": collection.name,
        "format": collection.format,
        "documents": documents,
    }
    queries, qrels = collection.queries, collection.qrels
    if len(queries):
        facts["queries"] = {
            "count": len(queries),
            "words": distribution([len(text.split()) for text in queries.texts or ()]),
        }
        if queries.fields:
            facts["queries"]["fields"] = ", ".join(queries.fields)
    if qrels:
        facts["judgements"] = ByName(
            {split: _judged(split_qrels) for split, split_qrels in qrels.items()}
        )
        judged = Ids.of(chain.from_iterable(split_qrels.queries for split_qrels in qrels.values()))
        facts["queries_without_judgements"] = int((queries.ids.positions_in(judged) < 0).sum())
        warnings += _strangers(qrels, queries, ids) + _leaks(queries, qrels)
    facts |= collection.facts()
    if collection.faults.left_out:
        facts["files_left_out"] = ByName(collection.faults.left_out)
    return Facts(facts, tuple(warnings)).with_faults(collection.faults)


def _documents(collection: Collection) -> tuple[dict[str, Any], Ids, list[str]]:
    words: list[int] = []
    hashes: list[int] = []
    batch: list[str] = []
    interner = Interner()
    titled, suspicious = 0, 0
    empty = Faults()
    with Progress("reading documents", unit="documents") as progress:
        for document in collection.documents:
            words.append(len(document.text.split()))
            hashes.append(xxhash.xxh3_64_intdigest(f"{document.title}\0{document.text}".encode()))
            titled += bool(document.title)
            empty.count_if_empty(document)
            suspicious += "\ufffd" in document.text
            batch.append(document.id)
            if len(batch) == IDS_IN_BATCH:
                _add(interner, batch)
                batch.clear()
            progress.advance()
    _add(interner, batch)
    same = len(hashes) - len(np.unique(np.array(hashes, np.uint64)))
    lengths = np.array(words)
    short, long = int((lengths == 1).sum()), int((lengths > LONG_DOCUMENT_WORDS).sum())
    facts = {"count": len(words), "with_title": titled, "words": distribution(lengths)}
    if empty.empty:
        facts["without_text"] = empty.empty
    checks = {
        "there are no documents": not words,
        f"{counted(same, 'document')} repeat the text of another": same,
        f"{counted(short, 'document')} of one word": short,
        f"{counted(long, 'document')} of more than {LONG_DOCUMENT_WORDS:,} words": long,
        f"{counted(suspicious, 'document')} with U+FFFD: wrongly decoded?": suspicious,
    }
    return (
        facts,
        _ids(interner),
        [
            *(sentence for sentence, wrong in checks.items() if wrong),
            *empty.notes(),
            *collection.faults.file_notes(),
        ],
    )


def _add(interner: Interner, batch: list[str]) -> None:
    data, offsets = pack(batch)
    interner.add(data, offsets[:-1], offsets[1:])


def _ids(interner: Interner) -> Ids:
    return Ids.numbering_tables([interner.table()])[0]


def _judged(qrels: Qrels) -> dict[str, Any]:
    grades, counts = np.unique(qrels.grade, return_counts=True)
    relevant = np.concatenate([[0], np.cumsum(qrels.grade > 0)])[qrels.offsets]
    return {
        "queries": len(qrels),
        "judgements": len(qrels.doc),
        "by_grade": {str(g): n for g, n in zip(grades.tolist(), counts.tolist(), strict=True)},
        "judged_per_query": distribution(np.diff(qrels.offsets)),
        "queries_without_relevant_document": int((np.diff(relevant) == 0).sum()),
    }


def _strangers(qrels: Mapping[str, Qrels], queries: Queries, docs: Ids) -> list[str]:
    """Judgements for queries or documents that the collection does not have."""
    sentences = []
    for split, split_qrels in qrels.items():
        lost = int((split_qrels.docs.positions_in(docs)[split_qrels.doc] < 0).sum())
        if lost:
            sentences.append(
                f"{split}: {counted(lost, 'judgement')} for documents that are not there"
            )
        lost = int((split_qrels.queries.positions_in(queries.ids) < 0).sum())
        if lost:
            sentences.append(f"{split}: judgements for {counted(lost, 'query')} that are not there")
    return sentences


def leaks(queries: Queries, splits: Mapping[str, Ids]) -> list[tuple[str, str, str, str]]:
    """Queries of different parts that are the same or nearly: part, query, other part, query.

    >>> from tamis.types import Query
    >>> log = Queries.of([Query("a", "Sift flour?"), Query("b", "sift flour")])
    >>> leaks(log, {"train": Ids.of(["a"]), "test": Ids.of(["b"])})
    [('train', 'a', 'test', 'b')]
    """
    part_of: list[list[str]] = [[] for _ in range(len(queries))]
    for name, query_ids in splits.items():
        numbers = query_ids.positions_in(queries.ids)
        for number in numbers[numbers >= 0].tolist():
            part_of[number].append(name)
    ids = queries.ids
    pairs = [
        (first_split, ids[n], second_split, ids[n])
        for n, names in enumerate(part_of)
        for first_split, second_split in combinations(names, 2)
    ]
    for group in near_duplicates(queries.texts or ()):
        for first, second in combinations(group, 2):
            for first_split in part_of[first]:
                for second_split in part_of[second]:
                    if first_split != second_split:
                        pairs.append((first_split, ids[first], second_split, ids[second]))
    return pairs


def _leaks(queries: Queries, qrels: Mapping[str, Qrels]) -> list[str]:
    pairs = leaks(queries, {split: split_qrels.queries for split, split_qrels in qrels.items()})
    if not pairs:
        return []
    sentences = [
        f"{counted(len(pairs), 'pair')} of queries in different splits are the same or nearly"
    ]
    for first_split, first, second_split, second in pairs[:MAX_SHOWN_LEAKS]:
        text = queries[first].text
        sentences.append(
            f"leak: {first_split} {first!r} and {second_split} {second!r}: {text[:70]}"
        )
    return sentences


def describe_run(run: Run, spec: Spec | None = None) -> Facts:
    """Queries, depth, scores and columns of a run, and how it was made, where that is known."""
    tied = 0
    if len(run.doc) > 1:
        inside = np.ones(len(run.doc) - 1, bool)
        bounds = run.offsets[1:-1]
        inside[bounds[(bounds > 0) & (bounds < len(run.doc))] - 1] = False
        tied = int(((run.score[1:] == run.score[:-1]) & inside).sum())
    facts = {
        "queries": len(run),
        "with_texts": run.queries.texts is not None,
        "rows": len(run.doc),
        "documents": len(np.unique(run.doc)),
        "documents_per_query": distribution(run.sizes()),
        "scores": distribution(run.score),
        "tied_with_previous_rank": tied,
        "extra_columns": ", ".join(run.extra) or "none",
        **({"made_by": spec} if spec else {}),
    }
    empty = int((run.sizes() == 0).sum())
    return Facts(facts, (f"{counted(empty, 'query')} without results",) if empty else ())


def describe_qrels(qrels: Qrels) -> Facts:
    """Queries, grades and depth of judgements."""
    facts = _judged(qrels)
    lost = facts["queries_without_relevant_document"]
    warning = f"{counted(lost, 'query')} without a relevant document"
    documents = len(np.unique(qrels.doc))
    return Facts({**facts, "documents": documents}, (warning,) if lost else ())


def describe_judged(queries: Queries, splits: Mapping[str, Qrels]) -> Facts:
    """Queries and judgements without documents."""
    described = {split: describe_qrels(qrels) for split, qrels in splits.items()}
    judgements = ByName({split: facts.facts for split, facts in described.items()})
    warnings = tuple(warning for facts in described.values() for warning in facts.warnings)
    return Facts({**describe_queries(queries).facts, "judgements": judgements}, warnings)


def describe_queries(queries: Queries) -> Facts:
    """Number, length and repetitions of queries."""
    texts = queries.texts or ()
    groups = near_duplicates(texts)
    facts = {
        "queries": len(queries),
        "words": distribution([len(text.split()) for text in texts]),
        "fields": ", ".join(queries.fields) or "none",
        "near_duplicates": sum(len(group) - 1 for group in groups),
    }
    return Facts(facts)


def passage_statistics(
    collection: Collection, spec: PassageSpec, *, tokens: Tokens | None = None, seed: int = 0
) -> dict[str, Any]:
    """Facts by name on the passages of a collection; goes through every document once.

    >>> from tamis.text.passages import parse_spec
    >>> documents = [Document("d1", "One. Two. Three."), Document("d2", "")]
    >>> facts = passage_statistics(Collection("toy", "none", documents), parse_spec("words:1"))
    >>> facts["count"], facts["documents_without_passages"]
    (3, 1)
    """
    per_document: list[int] = []
    words: list[int] = []
    windows_left_out, words_left_out = 0, 0
    with Progress("splitting documents", unit="documents") as progress:
        for document in collection.documents:
            pieces = split_document(document, spec, tokens=tokens, seed=seed)
            per_document.append(len(pieces.passages))
            words += [_words(document, passage) for passage in pieces.passages]
            windows_left_out += pieces.windows - len(pieces.passages)
            words_left_out += pieces.left_out
            progress.advance()
    facts: dict[str, Any] = {
        **spec.record(),
        "documents": len(per_document),
        "count": sum(per_document),
        "per_document": distribution(per_document),
        "words": distribution(words),
        "documents_without_passages": per_document.count(0),
    }
    if spec.most:
        facts["left_out_by_sampling"] = {"passages": windows_left_out, "words": words_left_out}
    return facts


def _words(document: Document, passage: Passage) -> int:
    text = document.title if passage.field == "title" else document.text
    return len(text[passage.start : passage.end].split())
