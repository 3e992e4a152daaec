"""Examples made ready to learn from: with texts, with all documents there, without test queries."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tamis.collection.loss_notes import counted
from tamis.errors import InputError
from tamis.labels.example_files import read_examples
from tamis.labels.examples import TEST_HASHES, Examples
from tamis.labels.held_out import drop_leaks
from tamis.labels.inputs import LabelInputs
from tamis.models.base_models import sha256
from tamis.pipeline.document_lookup import DocumentLookup
from tamis.splits import HeldOut
from tamis.types import Ids, Queries

AnyExamples = Examples | str | Path | Sequence[Examples | str | Path]
"""Examples or their files, one or several."""
_log = logging.getLogger(__name__)


def as_examples(examples: AnyExamples) -> list[Examples]:
    """Examples that were handed in or are read from files, one after the other.

    >>> one = Examples.of_rows([("q1", "d1", 1.0, "positive")], source="gold")
    >>> len(as_examples(one)), len(as_examples([one, one]))
    (1, 2)
    """
    listed = [examples] if isinstance(examples, Examples | str | Path) else examples
    if not isinstance(listed, Iterable):
        raise InputError(f"examples are of type {type(examples).__name__}", hint=_FORMS)
    parts = []
    for place, part in enumerate(listed):
        if not isinstance(part, Examples | str | Path):
            raise InputError(f"examples[{place}] is of type {type(part).__name__}", hint=_FORMS)
        parts.append(part if isinstance(part, Examples) else read_examples(part))
    if not parts:
        raise InputError("there are no examples to learn from", hint=_FORMS)
    return parts


_FORMS = "hand in Examples, as tamis.label makes them, or files of them"


def with_query_texts(examples: Examples, inputs: LabelInputs) -> Examples:
    """The examples with their queries' texts: of queries handed in, else their own, else those of
    the collection.
    """
    if inputs.queries is None and examples.queries.texts is not None:
        return examples
    queries: Queries | None = inputs.available_queries
    if queries is not None and queries.texts is not None:
        return examples.with_queries(queries)
    if len(examples.origins) < len(set(examples.query.tolist())):
        raise InputError(
            "the queries of the examples have no texts here",
            hint="name a file of queries: --queries FILE (queries=…)",
        )
    return examples


def joinable(parts: Sequence[Examples]) -> list[Examples]:
    """The parts so that none loses its texts when they are joined: queries made from documents
    have theirs there, and an empty one here, where others have texts.
    """
    if all(part.queries.texts is None for part in parts):
        return list(parts)
    return [
        part if part.queries.texts is not None
        else replace(part, queries=replace(part.queries, texts=("",) * len(part.queries)))
        for part in parts
    ]  # fmt: skip


def documents_read(parts: Iterable[Examples]) -> Ids:
    """The documents that examples refer to."""
    wanted = Ids.of([])
    for part in parts:
        origins = sorted({passage.doc_id for passage in part.origins.values()})
        wanted = wanted.union(part.docs).union(Ids.of(origins))
    return wanted


def refuse_absent(parts: Iterable[Examples], library: DocumentLookup) -> None:
    """Refuse examples of documents that are not there."""
    for part in parts:
        used = np.unique(part.doc)
        absent = np.flatnonzero(~library.has(part.docs.select(used)))
        if len(absent):
            raise InputError(
                f"document {part.docs[int(used[absent[0]])]!r} of the examples is not in the "
                f"collection ({len(absent):,} such)",
                hint="give the collection that the examples were made from",
            )


def known_test_queries(inputs: LabelInputs, parts: Iterable[Examples]) -> HeldOut:
    """The test queries: those of the collection, and those that the examples' makers knew."""
    known = [hashes for part in parts for hashes in facts_named(part.facts, TEST_HASHES)]
    hashes = {each for some in known for each in some}
    return replace(inputs.held_out, hashes=inputs.held_out.hashes | hashes)


def without_test_queries(
    examples: Examples, test: HeldOut, library: DocumentLookup, use: str
) -> Examples:
    """The examples without those of test queries, or of queries that repeat one."""
    left, leaks = drop_leaks(examples, test, library)
    if len(leaks):
        _log.warning(
            "%s not %s: a test query, or the same or nearly the same as one, such as %s",
            counted(len(leaks), "query"), use, leaks[0],
        )  # fmt: skip
    return left


def warn_of_teacher(base: str | Path, parts: Iterable[Examples]) -> None:
    """Warn where the base made the labels that it is to learn from."""
    teachers = [name for part in parts for name in facts_named(part.facts, "teacher")]
    if any(is_same_model(str(base), teacher) for teacher in teachers):
        _log.warning(
            "%s is the teacher that made these labels: the paper trains the plain base, since a "
            "teacher that goes on from its own labels learns little", base,
        )  # fmt: skip


def is_same_model(base: str, teacher: str) -> bool:
    """Whether both name the same model, by its name or by its weights."""
    if base == teacher:
        return True
    folders = Path(base).expanduser(), Path(teacher).expanduser()
    return all(folder.is_dir() for folder in folders) and sha256(folders[0]) == sha256(folders[1])


def facts_named(facts: Mapping[str, Any], name: str) -> Iterator[Any]:
    """The values of a fact, also where examples were joined and each part has its own.

    >>> list(facts_named({"0": {"teacher": "a"}, "1": {"teacher": "b"}}, "teacher"))
    ['a', 'b']
    """
    for key, value in facts.items():
        if key == name and value is not None:
            yield value
        elif isinstance(value, Mapping):
            yield from facts_named(value, name)
