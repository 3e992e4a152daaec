"""Facts about a re-ranking: how much was scored, what was truncated or left out, what moved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.pipeline.passage_scores import PassageScores
from tamis.types import Run, Spec, Stage

Ints = NDArray[np.int32]
FIRST_PAGE = 10


@dataclass(eq=False)
class ScoreBuffer:
    """Scores of every row of a run, filled while it is scored; -1 passages: not scored yet."""

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
    def of(cls, rows: int) -> ScoreBuffer:
        """Nothing known yet of so many rows."""
        score = np.full(rows, -np.inf, np.float32)
        nothing, none = np.zeros(rows, np.int32), np.full(rows, -1, np.int32)
        return cls(score, none, none.copy(), nothing, nothing.copy(), np.zeros(rows, np.int64))

    def enter(self, chunk: PassageScores) -> None:
        """Note the passages of some rows."""
        sizes = np.diff(chunk.offsets)
        row = np.repeat(chunk.rows, sizes)
        self.passages[chunk.rows] = sizes
        np.add.at(self.truncated_tokens, row, chunk.truncated_tokens)
        np.add.at(self.truncated_passages, row, chunk.truncated_tokens > 0)
        self.left_out[chunk.rows] = chunk.left_out
        self.rows += len(chunk.rows) + len(chunk.refused)
        self.refused += len(chunk.refused)
        self.computed += chunk.computed
        self.pairs += len(chunk.values)

    def not_scored(self) -> dict[str, dict[str, int]]:
        """What kept its order because it could not be scored; nothing where nothing did."""
        counts = {
            "documents_without_text": int((self.passages == 0).sum()),
            "documents_not_in_the_collection": self.absent,
            "documents_with_invalid_score": self.refused,
            "queries_without_text": self.empty_queries,
        }
        reasons = {name: count for name, count in counts.items() if count}
        return {"not_reranked": reasons} if reasons else {}


@dataclass(frozen=True, eq=False)
class Reranked:
    """A run re-ranked, the run it was, the row each document had there, and the scores."""

    run: Run
    before: Run
    row: NDArray[np.int64]
    scores: ScoreBuffer
    stage: Stage
    seconds: NDArray[np.float64] | None = None
    """How long each query took, where there was a latency to keep."""

    @property
    def spec(self) -> Spec:
        """How the run was made: the spec of the stage."""
        return self.stage.spec()

    def depths(self) -> NDArray[np.int64]:
        """How many documents of each query have a new score."""
        counted = np.concatenate([[0], np.cumsum(self.scores.passage >= 0)])
        return np.diff(counted[self.before.offsets])

    def facts(self) -> dict[str, Any]:
        """What there is to tell, by section and name."""
        not_shown = ("stage", "version", "scorer", "documents", "seed", "missing")
        return {
            "how": {name: value for name, value in self.spec.items() if name not in not_shown},
            "scored": self._scored(),
            **self.scores.not_scored(),
            "order": self.changes(),
        }

    def _scored(self) -> dict[str, Any]:
        buffer, has_documents = self.scores, self.before.sizes() > 0
        facts: dict[str, Any] = {
            "queries": len(self.run),
            "documents_per_query": _spread(self.depths()[has_documents]),
            "pairs": {"scored": buffer.computed, "from_cache": buffer.pairs - buffer.computed},
            "truncated": {
                "tokens": int(buffer.truncated_tokens.sum()),
                "passages": int(buffer.truncated_passages.sum()),
                "documents": int((buffer.truncated_tokens > 0).sum()),
            },
        }
        if buffer.left_out.any():
            facts["words_in_no_passage"] = int(buffer.left_out.sum())
        if self.seconds is not None:
            seconds = self.seconds[has_documents]
            facts["milliseconds_per_query"] = _spread(seconds * 1000)
            facts["queries_over_time_limit"] = int((seconds > self.spec["latency"]).sum())
        return facts

    def changes(self) -> dict[str, float]:
        """How the order changed, over queries that have documents."""
        from tamis.evaluation.agreement import agree

        before, after, row = self.before, self.run, self.row
        num_queries = int((after.sizes() > 0).sum())
        if not num_queries:
            return {}
        old, new = before.ranks()[row], after.ranks()
        first, top = new == 1, new <= FIRST_PAGE
        scored = after.extra["passage"] >= 0
        was = np.zeros(len(scored), bool)
        was[row] = scored
        tau = agree(_select_rows(before, was), _select_rows(after, scored)).means()["tau"]
        facts = {
            "queries_with_another_first_document": int((old[first] != 1).sum()),
            "mean_previous_rank_of_first": _short(float(old[first].mean())),
            f"mean_new_in_top_{FIRST_PAGE}": _short(
                float((old[top] > FIRST_PAGE).sum()) / num_queries
            ),
        }
        if tau == tau:
            facts["kendall_tau"] = round(tau, 3)
        return facts


def _select_rows(run: Run, rows: NDArray[np.bool_]) -> Run:
    """Some rows of a run."""
    counted = np.concatenate([[0], np.cumsum(rows)])
    return Run._unchecked(
        run.queries, run.docs, counted[run.offsets], run.doc[rows], run.score[rows]
    )


def _spread(values: NDArray[Any]) -> dict[str, float]:
    if not len(values):
        return {}
    summary = {"mean": values.mean(), "min": values.min(), "max": values.max()}
    return {name: _short(float(value)) for name, value in summary.items()}


def _short(value: float) -> float:
    return int(value) if value.is_integer() else round(value, 1)
