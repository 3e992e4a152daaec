"""Sources, stages and scorers: what a pipeline is made of.

`source >> stage` is a source, `stage >> stage` a stage; `%` keeps the top k. There is no
`stage >> source`: a type checker refuses it and so does Python.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from tamis.errors import InputError
from tamis.types.conditions import Condition
from tamis.types.records import Queries
from tamis.types.run import Run

Spec = dict[str, Any]
Scale = Literal["probability", "logit", "regression", "cosine"]
SPEC_VERSION = 1
"""The version of the specs that are written now, and the only one that is opened."""
DEFAULT_TOP = 1000


class Source(ABC):
    """Finds documents for queries: `source(queries)` is a run."""

    @abstractmethod
    def search(self, queries: Queries, top: int) -> Run:
        """The best `top` documents of every query."""

    @abstractmethod
    def spec(self) -> Spec:
        """Plain JSON from which `tamis.open_source` opens the source again."""

    def where(self, *conditions: str | Condition) -> Source:
        """The same source for the documents alone for which all conditions hold.

        A condition is written as `author=ada` or `date>=2024`; see docs/how-to/filter.md.
        """
        raise InputError(
            f"{type(self).__name__} cannot filter",
            hint="sources over an index can: index.bm25().where('author=ada')",
        )

    def __call__(self, queries: Queries) -> Run:
        return self.search(queries, DEFAULT_TOP)

    def __rshift__(self, stage: Stage) -> Source:
        return Then(self, stage) if isinstance(stage, Stage) else NotImplemented

    def __mod__(self, k: int) -> Source:
        return TopOfSource(self, k)


class Stage(ABC):
    """Turns a run into another: re-ranks it, cuts it, fuses it."""

    @abstractmethod
    def __call__(self, run: Run) -> Run: ...

    @abstractmethod
    def spec(self) -> Spec:
        """Plain JSON from which `tamis.open_stage` opens the stage again."""

    def __rshift__(self, stage: Stage) -> Stage:
        return Chain(self, stage) if isinstance(stage, Stage) else NotImplemented

    def __mod__(self, k: int) -> Stage:
        return Chain(self, Top(k))


@dataclass(frozen=True)
class Top(Stage):
    """Keeps the first k documents of every query."""

    k: int

    def __post_init__(self) -> None:
        if self.k < 1:
            raise InputError(f"cannot keep the top {self.k}", hint="keep at least one")

    def __call__(self, run: Run) -> Run:
        return run.top(self.k)

    def spec(self) -> Spec:
        """See `Stage.spec`."""
        return {"stage": "top", "version": SPEC_VERSION, "k": self.k}


@dataclass(frozen=True)
class Chain(Stage):
    """One stage after another."""

    first: Stage
    second: Stage

    def __call__(self, run: Run) -> Run:
        return self.second(self.first(run))

    def spec(self) -> Spec:
        """See `Stage.spec`."""
        return {
            "stage": "chain",
            "version": SPEC_VERSION,
            "first": self.first.spec(),
            "second": self.second.spec(),
        }


@dataclass(frozen=True)
class TopOfSource(Source):
    """A source asked for its best k."""

    source: Source
    k: int

    def __post_init__(self) -> None:
        Top(self.k)

    def search(self, queries: Queries, top: int) -> Run:
        """The best `top` documents, k at most."""
        return self.source.search(queries, min(top, self.k))

    def where(self, *conditions: str | Condition) -> TopOfSource:
        """See `Source.where`."""
        return replace(self, source=self.source.where(*conditions))

    def __call__(self, queries: Queries) -> Run:
        return self.source.search(queries, self.k)

    def spec(self) -> Spec:
        """See `Source.spec`."""
        return {
            "source": "top",
            "version": SPEC_VERSION,
            "k": self.k,
            "of": self.source.spec(),
        }


@dataclass(frozen=True)
class Then(Source):
    """A source whose run goes through a stage."""

    source: Source
    stage: Stage

    def search(self, queries: Queries, top: int) -> Run:
        """The best `top` documents after the stage has seen everything the source gives."""
        return self.stage(self.source(queries)).top(top)

    def where(self, *conditions: str | Condition) -> Then:
        """See `Source.where`: what the stage gets is filtered."""
        return replace(self, source=self.source.where(*conditions))

    def __call__(self, queries: Queries) -> Run:
        return self.stage(self.source(queries))

    def spec(self) -> Spec:
        """See `Source.spec`."""
        return {
            "source": "then",
            "version": SPEC_VERSION,
            "first": self.source.spec(),
            "stage": self.stage.spec(),
        }


@dataclass(frozen=True, eq=False)
class Pairs:
    """What a scorer scores: distinct queries, distinct texts, and which goes with which.

    >>> pairs = Pairs(["sieve"], ["a drum", "a net"], np.array([[0, 0], [0, 1]], np.int32))
    >>> len(pairs)
    2
    """

    queries: Sequence[str]
    texts: Sequence[str]
    index: NDArray[np.int32]

    def __post_init__(self) -> None:
        if self.index.ndim != 2 or self.index.shape[1] != 2:
            raise InputError(f"pairs need an index of n rows and 2 columns, not {self.index.shape}")

    def __len__(self) -> int:
        return len(self.index)


@dataclass(frozen=True, eq=False)
class Scores:
    """One value per pair, and how many tokens of the pair were truncated."""

    values: NDArray[np.float32]
    truncated_tokens: NDArray[np.int32]


class Scorer(Protocol):
    """Scores pairs, in whatever order and batches it likes; values come back in pair order."""

    @property
    def scale(self) -> Scale:
        """What a value means."""

    def score(self, pairs: Pairs) -> Scores:
        """One finite value a pair."""


class Encoder(Protocol):
    """Turns texts into embeddings, one row per text."""

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The embeddings of these texts."""


class TermStatistics(Protocol):
    """What a collection knows about its terms."""

    @property
    def num_documents(self) -> int:
        """How many documents there are."""

    @property
    def total_terms(self) -> int:
        """How many terms all documents have together."""

    def document_frequency(self, term: str) -> int:
        """In how many documents the term occurs."""

    def collection_frequency(self, term: str) -> int:
        """How often the term occurs in all documents together."""

    def document_vector(self, doc_id: str) -> Mapping[str, int]:
        """How often each term occurs in one document."""

    def score_text(self, query: str, text: str) -> float:
        """The score of any text against a query under the collection's statistics."""


def score_texts(scorer: Scorer, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
    """The scores of some texts for one query: a helper on top of `Scorer.score`."""
    index = np.zeros((len(texts), 2), np.int32)
    index[:, 1] = np.arange(len(texts))
    return scorer.score(Pairs([query], texts, index)).values
