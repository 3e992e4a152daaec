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

    >>> example = Examples.of_rows([("q1", "d1", 1.0, "positive")], source="gold")
    >>> len(as_examples(example)), len(as_examples([example, example]))
    (1, 2)
    """
    listed = [examples] if isinstance(examples, Examples | str | Path) else examples
    if not isinstance(listed, Iterable):
        raise InputError(f"examples are of type {type(examples).__name__}", hint=_EXAMPLES_HINT)
    example_sets = []
    for place, entry in enumerate(listed):
        if not isinstance(entry, Examples | str | Path):
            raise InputError(
                f"examples[{place}] is of type {type(entry).__name__}", hint=_EXAMPLES_HINT
            )
        example_sets.append(entry if isinstance(entry, Examples) else read_examples(entry))
    if not example_sets:
        raise InputError("there are no examples to learn from", hint=_EXAMPLES_HINT)
    return example_sets


_EXAMPLES_HINT = "hand in Examples, as tamis.label makes them, or files of them"


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


def with_all_texts(example_sets: Sequence[Examples]) -> list[Examples]:
    """The examples so that none loses its texts when they are joined: queries made from documents
    have theirs there, and an empty one here, where others have texts.
    """
    if all(examples.queries.texts is None for examples in example_sets):
        return list(example_sets)
    return [_with_texts(examples) for examples in example_sets]


def _with_texts(examples: Examples) -> Examples:
    """The examples with empty texts of queries, where they have none."""
    if examples.queries.texts is not None:
        return examples
    empty = ("",) * len(examples.queries)
    return replace(examples, queries=replace(examples.queries, texts=empty))


def referenced_documents(example_sets: Iterable[Examples]) -> Ids:
    """The documents that examples refer to."""
    doc_ids = Ids.of([])
    for examples in example_sets:
        origins = sorted({passage.doc_id for passage in examples.origins.values()})
        doc_ids = doc_ids.union(examples.docs).union(Ids.of(origins))
    return doc_ids


def refuse_absent(example_sets: Iterable[Examples], lookup: DocumentLookup) -> None:
    """Refuse examples of documents that are not there."""
    for examples in example_sets:
        used = np.unique(examples.doc)
        absent = np.flatnonzero(~lookup.has(examples.docs.select(used)))
        if len(absent):
            raise InputError(
                f"document {examples.docs[int(used[absent[0]])]!r} of the examples is not in the "
                f"collection ({len(absent):,} such)",
                hint="give the collection that the examples were made from",
            )


def collect_test_queries(inputs: LabelInputs, example_sets: Iterable[Examples]) -> HeldOut:
    """The test queries: those of the collection, and those that the examples' makers knew."""
    hash_lists = [
        hashes for examples in example_sets for hashes in find_facts(examples.facts, TEST_HASHES)
    ]
    hashes = {query_hash for hash_list in hash_lists for query_hash in hash_list}
    return replace(inputs.held_out, hashes=inputs.held_out.hashes | hashes)


def drop_test_queries(
    examples: Examples, test: HeldOut, lookup: DocumentLookup, use: str
) -> Examples:
    """The examples without those of test queries, or of queries that repeat one."""
    remaining, leaks = drop_leaks(examples, test, lookup)
    if len(leaks):
        _log.warning(
            "%s not %s: a test query, or the same or nearly the same as one, such as %s",
            counted(len(leaks), "query"), use, leaks[0],
        )  # fmt: skip
    return remaining


def warn_of_teacher(base: str | Path, example_sets: Iterable[Examples]) -> None:
    """Warn where the base made the labels that it is to learn from."""
    teachers = [name for examples in example_sets for name in find_facts(examples.facts, "teacher")]
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


def find_facts(facts: Mapping[str, Any], name: str) -> Iterator[Any]:
    """The values of a fact, also where examples were joined and each part has its own.

    >>> list(find_facts({"0": {"teacher": "a"}, "1": {"teacher": "b"}}, "teacher"))
    ['a', 'b']
    """
    for key, value in facts.items():
        if key == name and value is not None:
            yield value
        elif isinstance(value, Mapping):
            yield from find_facts(value, name)
