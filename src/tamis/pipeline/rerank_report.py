"""What re-ranking did: how much was scored, what was cut or could not be, what moved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.evaluation import agree
from tamis.pipeline.passage_scores import PassageScores
from tamis.types import Run, Spec, Stage

Ints = NDArray[np.int32]
FIRST = 10
"""How many documents a reader sees first."""


@dataclass(eq=False)
class Found:
    """What is known of every row of a run while it is being scored; -1 passages: not scored yet."""

    score: NDArray[np.float32]
    passage: Ints
    passages: Ints
    truncated_tokens: Ints
    truncated_passages: Ints
    left_out: NDArray[np.int64]
    rows: int = 0
    computed: int = 0
    pairs: int = 0
    absent: int = 0
    empty_queries: int = 0
    refused: int = 0
    """How many documents have a score that is no number."""

    @classmethod
    def of(cls, rows: int) -> Found:
        """Nothing known yet of so many rows."""
        score = np.full(rows, -np.inf, np.float32)
        nothing, none = np.zeros(rows, np.int32), np.full(rows, -1, np.int32)
        return cls(score, none, none.copy(), nothing, nothing.copy(), np.zeros(rows, np.int64))

    def enter(self, part: PassageScores) -> None:
        """Note the passages of some rows."""
        sizes = np.diff(part.offsets)
        row = np.repeat(part.rows, sizes)
        self.passages[part.rows] = sizes
        np.add.at(self.truncated_tokens, row, part.truncated_tokens)
        np.add.at(self.truncated_passages, row, part.truncated_tokens > 0)
        self.left_out[part.rows] = part.left_out
        self.rows += len(part.rows) + len(part.refused)
        self.refused += len(part.refused)
        self.computed += part.computed
        self.pairs += len(part.values)

    def not_scored(self) -> dict[str, dict[str, int]]:
        """What kept its order because it could not be scored; nothing where nothing did."""
        counts = {
            "documents without text": int((self.passages == 0).sum()),
            "documents not in the collection": self.absent,
            "documents whose score is no number": self.refused,
            "queries without text": self.empty_queries,
        }
        left = {name: count for name, count in counts.items() if count}
        return {"not re-ranked": left} if left else {}


@dataclass(frozen=True, eq=False)
class Reranked:
    """A run re-ranked, the run it was, the row each document had there, and what was found."""

    run: Run
    before: Run
    row: NDArray[np.int64]
    found: Found
    stage: Stage
    seconds: NDArray[np.float64] | None = None
    """How long each query took, where there was a latency to keep."""

    @property
    def spec(self) -> Spec:
        """How the run was made: the spec of the stage."""
        return self.stage.spec()

    def depths(self) -> NDArray[np.int64]:
        """How many documents of each query have a new score."""
        counted = np.concatenate([[0], np.cumsum(self.found.passage >= 0)])
        return np.diff(counted[self.before.offsets])

    def facts(self) -> dict[str, Any]:
        """What there is to tell, by section and name."""
        missing_information = ("stage", "version", "scorer", "documents", "seed", "missing")
        return {
            "how": {
                name: value for name, value in self.spec.items() if name not in missing_information
            },
            "scored": self._scored(),
            **self.found.not_scored(),
            "order": self.changes(),
        }

    def _scored(self) -> dict[str, Any]:
        found, asked = self.found, self.before.sizes() > 0
        facts: dict[str, Any] = {
            "queries": len(self.run),
            "documents per query": _spread(self.depths()[asked]),
            "pairs": {"scored": found.computed, "spared": found.pairs - found.computed},
            "truncated": {
                "tokens": int(found.truncated_tokens.sum()),
                "passages": int(found.truncated_passages.sum()),
                "documents": int((found.truncated_tokens > 0).sum()),
            },
        }
        if found.left_out.any():
            facts["words in no passage"] = int(found.left_out.sum())
        if self.seconds is not None:
            taken = self.seconds[asked]
            facts["milliseconds per query"] = _spread(taken * 1000)
            facts["queries that took longer"] = int((taken > self.spec["latency"]).sum())
        return facts

    def changes(self) -> dict[str, float]:
        """How the order changed, over queries that have documents."""
        before, after, row = self.before, self.run, self.row
        asked = int((after.sizes() > 0).sum())
        if not asked:
            return {}
        old, new = before.ranks()[row], after.ranks()
        first, top = new == 1, new <= FIRST
        scored = after.extra["passage"] >= 0
        was = np.zeros(len(scored), bool)
        was[row] = scored
        tau = agree(_part(before, was), _part(after, scored)).means()["tau"]
        found = {
            "queries with another first document": int((old[first] != 1).sum()),
            "mean rank before of the first now": _short(float(old[first].mean())),
            f"mean number new in the first {FIRST}": _short(
                float((old[top] > FIRST).sum()) / asked
            ),
        }
        if tau == tau:
            found["Kendall's tau of the re-ranked"] = round(tau, 3)
        return found


def _part(run: Run, rows: NDArray[np.bool_]) -> Run:
    """Some rows of a run."""
    counted = np.concatenate([[0], np.cumsum(rows)])
    return Run.trusted(run.queries, run.docs, counted[run.offsets], run.doc[rows], run.score[rows])


def _spread(values: NDArray[Any]) -> dict[str, float]:
    if not len(values):
        return {}
    found = {"mean": values.mean(), "least": values.min(), "most": values.max()}
    return {name: _short(float(value)) for name, value in found.items()}


def _short(value: float) -> float:
    return int(value) if value.is_integer() else round(value, 1)
