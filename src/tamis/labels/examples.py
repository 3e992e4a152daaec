"""Examples: what a ranker learns from, one row per query and text, both by reference.

Rows of a group belong together: the texts of one query that are compared with each other. A row
names its document and the characters of the document's text that are meant, never the text itself,
and says where its value comes from. Files are Parquet; `texts` reads what rows refer to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import xxhash
from numpy.typing import NDArray

from tamis.errors import InputError
from tamis.types import Ids, Passage, Queries

Role = Literal["positive", "negative", "pool"]
ROLES: tuple[Role, ...] = ("positive", "negative", "pool")
"""What a row is for; negatives are drawn afresh from a pool."""
LabelSource = Literal["gold", "pseudo", "weak", "transferred", "teacher", "synthetic"]
LABEL_SOURCES: tuple[LabelSource, ...] = (
    "gold",
    "pseudo",
    "weak",
    "transferred",
    "teacher",
    "synthetic",
)
"""Where a value comes from."""
LabelType = Literal["class", "scaled", "score"]
LABEL_TYPES: tuple[LabelType, ...] = ("class", "scaled", "score")
"""What a value is: 1 or 0, a number from 0 to 5, or a score of whatever scale."""
TEST_HASHES = "test_query_hashes"
"""The fact that holds the hashes of the test queries, which training leaves out by it."""
TO_THE_END = -1
"""The `end` of a row that means a text to its end."""


@dataclass(frozen=True, eq=False)
class Examples:
    """Rows in the order of their groups; every group is of one query.

    `start` and `end` are characters of the document's text, the whole text being 0 and -1, and
    where `titled` is set the document's title stands before it. A query made from a document has
    an origin, by its number: the characters that are its text. They are left out of the texts
    that contain them.

    >>> one = Examples.of_rows(
    ...     [("q1", "d1", 1.0, "positive"), ("q1", "d2", 0.0, "negative")], source="gold")
    >>> len(one), one.groups, one.queries.ids[0], one.docs[int(one.doc[1])]
    (2, 1, 'q1', 'd2')
    """

    queries: Queries
    docs: Ids
    group: NDArray[np.int32]
    query: NDArray[np.int32]
    doc: NDArray[np.int32]
    start: NDArray[np.int32]
    end: NDArray[np.int32]
    titled: NDArray[np.bool_]
    value: NDArray[np.float32]
    role: NDArray[np.int8]
    source: NDArray[np.int8]
    kind: NDArray[np.int8]
    origins: Mapping[int, Passage] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    """How the rows were made, in plain JSON."""

    def __post_init__(self) -> None:
        for name in COLUMNS:
            if len(getattr(self, name)) != len(self.group):
                raise InputError(f"{len(self.group)} examples but not as many values of {name!r}")
        if len(self.group) == 0:
            return
        steps = np.diff(self.group)
        if self.group[0] != 0 or (steps < 0).any() or (steps > 1).any():
            raise InputError("groups of examples are not numbered 0, 1, … in the order of the rows")
        if (np.diff(self.query)[steps == 0] != 0).any():
            raise InputError("a group of examples has more than one query")
        if not np.isfinite(self.value).all():
            raise InputError("a value of the examples is no number")

    @classmethod
    def of_rows(
        cls,
        rows: Sequence[tuple[str, str, float, Role]],
        *,
        source: LabelSource,
        kind: LabelType = "class",
        facts: Mapping[str, Any] | None = None,
    ) -> Examples:
        """Whole documents with titles: (query id, document id, value, role), one group per query
        in the order in which queries first occur.
        """
        names = dict.fromkeys(query for query, *_ in rows)
        place = {query: number for number, query in enumerate(names)}
        ordered = sorted(rows, key=lambda row: place[row[0]])
        ids, number = Ids.numbering([query for query, *_ in ordered])
        docs, doc = Ids.numbering([doc for _, doc, *_ in ordered])
        count = len(ordered)
        return cls(
            Queries(ids),
            docs,
            np.array([place[query] for query, *_ in ordered], np.int32),
            number,
            doc,
            np.zeros(count, np.int32),
            np.full(count, TO_THE_END, np.int32),
            np.ones(count, bool),
            np.array([value for *_, value, _ in ordered], np.float32),
            np.array([ROLES.index(role) for *_, role in ordered], np.int8),
            np.full(count, LABEL_SOURCES.index(source), np.int8),
            np.full(count, LABEL_TYPES.index(kind), np.int8),
            {},
            dict(facts or {}),
        )

    def __len__(self) -> int:
        return len(self.group)

    def __repr__(self) -> str:
        return f"<Examples: {len(self):,} of {self.groups:,} groups>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Examples):
            return NotImplemented
        return (
            self.queries.ids == other.queries.ids
            and self.docs == other.docs
            and all(np.array_equal(getattr(self, n), getattr(other, n)) for n in COLUMNS)
            and dict(self.origins) == dict(other.origins)
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def groups(self) -> int:
        """How many groups there are."""
        return int(self.group[-1]) + 1 if len(self.group) else 0

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Where each group begins, and the end of the last."""
        return np.searchsorted(self.group, np.arange(self.groups + 1)).astype(np.int64)

    def is_role(self, role: Role) -> NDArray[np.bool_]:
        """Which rows have this role."""
        mask: NDArray[np.bool_] = self.role == ROLES.index(role)
        return mask

    def select(self, rows: NDArray[np.integer[Any]] | NDArray[np.bool_]) -> Examples:
        """Some rows (ascending, or a mask), their groups numbered anew; tables are kept."""
        columns = {name: getattr(self, name)[rows] for name in COLUMNS}
        group = columns.pop("group")
        return replace(
            self, group=np.unique(group, return_inverse=True)[1].astype(np.int32), **columns
        )

    def of_queries(self, queries: Ids) -> Examples:
        """The rows of some queries."""
        selected = self.queries.ids.positions_in(queries) >= 0
        return self.select(selected[self.query])

    def with_queries(self, queries: Queries) -> Examples:
        """The same with texts of the queries that were not made from documents."""
        if queries.texts is None:
            raise InputError("these queries have no texts", hint="open the collection's queries")
        positions = self.queries.ids.positions_in(queries.ids)
        used = np.unique(self.query)
        absent = [n for n in used.tolist() if positions[n] < 0 and n not in self.origins]
        if absent:
            raise InputError(
                f"query {self.queries.ids[absent[0]]!r} of the examples is not in the collection",
                hint="give the collection that the examples were made from, or --queries FILE",
            )
        texts = tuple(queries.texts[n] if n >= 0 else "" for n in positions.tolist())
        return replace(self, queries=Queries(self.queries.ids, texts))


COLUMNS = (
    "group",
    "query",
    "doc",
    "start",
    "end",
    "titled",
    "value",
    "role",
    "source",
    "kind",
)


def join_examples(example_sets: Sequence[Examples]) -> Examples:
    """The rows of all, group after group, the facts of each under its number.

    >>> one = Examples.of_rows([("q1", "d1", 1.0, "positive")], source="gold")
    >>> join_examples([one, one]).groups
    2
    """
    if len(example_sets) == 1:
        return example_sets[0]
    if not example_sets:
        raise InputError("there are no examples to join")
    queries, docs = example_sets[0].queries.ids, example_sets[0].docs
    for examples in example_sets[1:]:
        queries, docs = queries.union(examples.queries.ids), docs.union(examples.docs)
    columns: dict[str, list[NDArray[Any]]] = {name: [] for name in COLUMNS}
    origins: dict[int, Passage] = {}
    groups = 0
    for examples in example_sets:
        query_of, doc_of = (
            examples.queries.ids.positions_in(queries),
            examples.docs.positions_in(docs),
        )
        renumbered = {"group": examples.group + groups, "query": query_of[examples.query]}
        renumbered["doc"] = doc_of[examples.doc]
        for name, column in columns.items():
            column.append(renumbered.get(name, getattr(examples, name)))
        origins.update((int(query_of[n]), passage) for n, passage in examples.origins.items())
        groups += examples.groups
    joined = {name: np.concatenate(column) for name, column in columns.items()}
    facts: dict[str, Any] = {
        str(number): dict(examples.facts) for number, examples in enumerate(example_sets)
    }
    hashes = {
        query_hash
        for examples in example_sets
        for query_hash in examples.facts.get(TEST_HASHES, ())
    }
    facts |= {TEST_HASHES: sorted(hashes)} if hashes else {}
    return Examples(
        Queries(queries, _texts(example_sets, queries)),
        docs,
        **joined,
        origins=origins,
        facts=facts,
    )


def _texts(example_sets: Sequence[Examples], queries: Ids) -> tuple[str, ...] | None:
    """The texts of all queries, if every part has those of its own."""
    texts = [""] * len(queries)
    for examples in example_sets:
        if examples.queries.texts is None:
            return None
        for place, text in zip(
            examples.queries.ids.positions_in(queries).tolist(), examples.queries.texts, strict=True
        ):
            texts[place] = text or texts[place]
    return tuple(texts)


def readable_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """How examples were made, for people: of test queries their number, not their hashes.

    >>> readable_facts({"seed": 0, "candidates": None, "test_query_hashes": ["9bd56bed6ab13f92"]})
    {'seed': 0, 'test_queries_held_out': 1}
    """
    readable: dict[str, Any] = {}
    for name, value in facts.items():
        if name == TEST_HASHES:
            readable["test_queries_held_out"] = len(value)
        elif value is not None:
            readable[name] = readable_facts(value) if isinstance(value, Mapping) else value
    return readable


def digest(examples: Examples) -> str:
    """A hash of everything in some examples but their facts and the texts of their queries.

    >>> one = Examples.of_rows([("q1", "d1", 1.0, "positive")], source="gold")
    >>> two = Examples.of_rows([("q1", "d1", 0.0, "positive")], source="gold")
    >>> digest(one) == digest(one), digest(one) == digest(two)
    (True, False)
    """
    hasher = xxhash.xxh3_128()
    for table in (examples.queries.ids, examples.docs):
        hasher.update(table.data.tobytes())
        hasher.update(table.offsets.tobytes())
    for name in COLUMNS:
        hasher.update(getattr(examples, name).tobytes())
    hasher.update(repr(sorted(examples.origins.items())).encode())
    return str(hasher.hexdigest())
