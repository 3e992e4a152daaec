"""The causes of a loss that can be undone: for each, the rankings that the worse queries would
have had without it.

Scores that are made anew come from the model that made the run, on the same scale. So a cause that
needs them is only run for queries whose run the model gives again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from tamis.pipeline.document_lookup import Documents, open_lookup
from tamis.pipeline.fuse import weighted_sum
from tamis.pipeline.rerank import rerank
from tamis.scorers.bi_encoder import BiEncoder
from tamis.scorers.cross_encoder import CrossEncoder
from tamis.scorers.lexical import Lexical
from tamis.search import Index
from tamis.types import Ids, Qrels, Queries, Query, Run, Scorer
from tamis.types.columns import LEXICAL_SCORE, PASSAGE, TRUNCATED_TOKENS

Rankings = Mapping[str, Mapping[str, float]]
"""Of each query the scores of its documents."""
WINDOWS = "words:150:75"
"""The passages in which a text is read that is longer than the model reads."""
FUSION_WEIGHT = 0.5
"""What the lexical score counts where it is fused back."""
DEEPER = 10
"""How many times as many candidates are searched for by default."""
TOLERANCE = 1e-4
"""How far a score that is made anew may lie from the run's."""


@dataclass(frozen=True, eq=False)
class LossInputs:
    """A run, a baseline, judgements, and what is needed to make the run again."""

    run: Run
    baseline: Run
    qrels: Qrels
    documents: Documents
    scorer: Scorer | None = None
    passages: str = "whole"
    """How the documents of the run were split when they were scored."""
    aggregate: str = "max"
    deeper: int = DEEPER
    """How many times as many candidates an index is searched for."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """Of queries that the runs have no texts of."""

    def select(self, queries: Ids) -> LossInputs:
        """The same for some of the queries."""
        return replace(
            self,
            run=self.run.select(queries),
            baseline=self.baseline.select(queries),
            qrels=self.qrels.select(queries),
        )

    def text(self, query: str) -> str:
        """The text of a query; empty where nobody knows it."""
        for run in (self.run, self.baseline):
            if run.queries.texts is not None and query in run.queries:
                return run.queries[query].text
        return self.texts.get(query, "")

    @cached_property
    def rankings(self) -> Rankings:
        """The run as scores by query and document."""
        return self.run.to_dict()

    @cached_property
    def again(self) -> Scored:
        """The run scored again, as it was made."""
        return self.score({query: [*scores] for query, scores in self.rankings.items()})

    @cached_property
    def reproduced(self) -> frozenset[str]:
        """The queries whose scores the model gives again."""
        scored = self.run
        if PASSAGE in scored.extra:  # the others keep their order below
            scored = scored.rows(scored.extra[PASSAGE] >= 0)
        return frozenset(
            query
            for query, scores in scored.to_dict().items()
            if self.text(query) and _are_close(scores, self.again.scores.get(query, {}))
        )

    def score(
        self,
        wanted: Mapping[str, Iterable[str]],
        passages: str | None = None,
        scorer: Scorer | None = None,
    ) -> Scored:
        """The scores of documents, and how many of their tokens were truncated; documents that are
        not there are left out.
        """
        assert self.scorer is not None
        scores = {query: dict.fromkeys(ids, 0.0) for query, ids in wanted.items()}
        run = Run.from_dict({query: ids for query, ids in scores.items() if ids})
        run = run.with_queries(Queries.of(Query(name, self.text(name)) for name in run))
        stage = rerank(
            scorer or self.scorer, self.documents,
            passages=passages or self.passages, aggregate=self.aggregate,
            depth=max(int(run.sizes().max(initial=1)), 1), missing="skip",
        )  # fmt: skip
        after = stage(run)
        scored = after.rows(after.extra["passage"] >= 0)
        names = scored.docs.take(scored.doc)
        queries = np.repeat(np.array(list(scored), object), scored.sizes()).tolist()
        counts = scored.extra[TRUNCATED_TOKENS].tolist()
        pairs = zip(queries, names, counts, strict=True)
        truncated = {(query, name) for query, name, count in pairs if count}
        return Scored(scored.to_dict(), truncated)

    def notes(self) -> list[str]:
        """What a reader must know."""
        if self.scorer is None or "again" not in vars(self):
            return []
        missing = len(self.rankings) - len(self.reproduced)
        if not missing:
            return []
        return [
            f"the model does not give the scores of the run again for {missing:,} of the "
            f"{len(self.rankings):,} worse queries: causes that need it were not run for these"
        ]


@dataclass(frozen=True, eq=False)
class Scored:
    """Scores by query and document, and the pairs of which tokens were truncated."""

    scores: Rankings
    truncated: set[tuple[str, str]]


def _are_close(run: Mapping[str, float], again: Mapping[str, float]) -> bool:
    return bool(again) and all(
        name in again and abs(again[name] - score) <= TOLERANCE * max(1.0, abs(score))
        for name, score in run.items()
    )


@dataclass(frozen=True)
class Cause:
    """Something that may have made a query worse, and how it is undone."""

    key: str
    name: str
    undone_by: str
    why_not: Callable[[LossInputs], str]
    """Why it cannot be run; empty where it can."""
    undo: Callable[[LossInputs], Rankings]
    """The rankings without it, of those queries where that changes something."""
    undo_in_baseline: Callable[[LossInputs], Rankings] | None = None
    """The baseline's rankings without it, where both runs may have it."""


def _needs_model(inputs: LossInputs) -> str:
    if inputs.scorer is None:
        return "no model was given"
    if not inputs.reproduced:
        return "the model does not give the scores of the run again"
    return ""


def fuse_lexical_score(inputs: LossInputs) -> Rankings:
    """The run's score and the lexical one, both from 0 to 1, with equal weights."""
    lexical = lexical_scores(inputs)
    run = inputs.run.select(lexical.queries.ids)
    fused = weighted_sum([lexical, run], [FUSION_WEIGHT, 1 - FUSION_WEIGHT]).to_dict()
    return {query: scores for query, scores in fused.items() if scores}


def lexical_scores(inputs: LossInputs) -> Run:
    """The documents of the run by the lexical score that it has in a column, else by BM25 over the
    index; without queries whose text nobody knows.
    """
    run = inputs.run
    if LEXICAL_SCORE in run.extra:
        return Run(run.queries, run.docs, run.offsets, run.doc, run.extra[LEXICAL_SCORE])
    assert isinstance(inputs.documents, Index)
    known = {query: scores for query, scores in inputs.rankings.items() if inputs.text(query)}
    bm25 = replace(inputs, scorer=Lexical(inputs.documents), passages="whole", aggregate="max")
    return Run.from_dict(bm25.score(known).scores)


def _why_not_lexical(inputs: LossInputs) -> str:
    if LEXICAL_SCORE in inputs.run.extra:
        return ""
    if not isinstance(inputs.documents, Index):
        return "the collection is no index, and the run has no lexical_score"
    if not any(map(inputs.text, inputs.rankings)):
        return "the texts of the queries are not known"
    return ""


def read_whole_text(inputs: LossInputs) -> Rankings:
    """The documents of which tokens were truncated, read in full: at the model's greatest length
    where they fit, else in windows, of which the best counts.
    """
    wanted: dict[str, list[str]] = {}
    for query, name in inputs.again.truncated:
        if query in inputs.reproduced:
            wanted.setdefault(query, []).append(name)
    if not wanted:
        return {}
    scores = {query: dict(inputs.rankings[query]) for query in wanted}
    longer = at_greatest_length(inputs.scorer)
    if longer is not None:
        read = inputs.score(wanted, scorer=longer)
        for query, name in _pairs(wanted):
            if (query, name) not in read.truncated and name in read.scores.get(query, {}):
                scores[query][name] = read.scores[query][name]
        wanted = {
            query: [name for name in names if (query, name) in read.truncated]
            for query, names in wanted.items()
        }
    if any(wanted.values()):
        for query, found in inputs.score(wanted, WINDOWS).scores.items():
            scores[query] |= found
    return scores


def _pairs(wanted: Mapping[str, Iterable[str]]) -> list[tuple[str, str]]:
    return [(query, name) for query, names in wanted.items() for name in names]


def at_greatest_length(scorer: Scorer | None) -> Scorer | None:
    """The same model that reads as many tokens as it can; None where it does so already."""
    if not isinstance(scorer, CrossEncoder | BiEncoder):
        return None
    longest = scorer.model.longest
    if isinstance(scorer, BiEncoder) and scorer.open_documents is not None:
        return None
    return replace(scorer, max_length=longest) if longest > scorer.max_length else None


def read_whole_documents(inputs: LossInputs) -> Rankings:
    """The documents scored whole, not by their passages."""
    wanted = {query: [*inputs.rankings[query]] for query in inputs.reproduced}
    whole = inputs.score(wanted, "whole").scores
    return {query: {**inputs.rankings[query], **scores} for query, scores in whole.items()}


def _why_not_whole(inputs: LossInputs) -> str:
    if inputs.passages == "whole":
        return "the run was scored on whole documents (--passages says otherwise)"
    return _needs_model(inputs)


def score_more_candidates(inputs: LossInputs) -> Rankings:
    """The baseline's documents beside the run's, and what an index finds several times as deep."""
    wanted = {query: {*inputs.baseline.to_dict().get(query, {})} for query in inputs.reproduced}
    if isinstance(inputs.documents, Index):
        queries = Queries.of(Query(query, inputs.text(query)) for query in wanted)
        deep = inputs.deeper * int(inputs.run.sizes().max(initial=1))
        for query, scores in inputs.documents.bm25().search(queries, deep).to_dict().items():
            wanted[query] |= {*scores}
    return _with_added(inputs, wanted)


def add_judged_documents(inputs: LossInputs) -> Rankings:
    """The documents judged relevant that the baseline has and the run has not, scored and added.

    A document that both lack does not make one of them worse than the other.
    """
    baseline = inputs.baseline.to_dict()
    relevant = {
        query: {name for name, grade in inputs.qrels[query].items() if grade > 0}
        for query in inputs.reproduced
    }
    return _with_added(
        inputs, {query: names & {*baseline.get(query, {})} for query, names in relevant.items()}
    )


def _with_added(inputs: LossInputs, wanted: Mapping[str, set[str]]) -> Rankings:
    new = {query: names - {*inputs.rankings[query]} for query, names in wanted.items()}
    new = _existing(inputs, {query: names for query, names in new.items() if names})
    if not new:
        return {}
    added = inputs.score(new).scores
    return {
        query: {**inputs.rankings[query], **scores} for query, scores in added.items() if scores
    }


def _existing(inputs: LossInputs, wanted: Mapping[str, set[str]]) -> dict[str, set[str]]:
    ids = Ids.of(name for names in wanted.values() for name in names)
    with open_lookup(inputs.documents, ids) as lookup:
        there = dict(zip(ids, lookup.has(ids).tolist(), strict=True))
    kept = {query: {name for name in names if there[name]} for query, names in wanted.items()}
    return {query: names for query, names in kept.items() if names}


def leave_out_unjudged(inputs: LossInputs) -> Rankings:
    """The run without the documents that nobody has judged, of queries that have some judged not
    relevant: elsewhere only relevant documents would be left.
    """
    return _judged_alone(inputs.rankings, inputs.qrels)


def leave_out_unjudged_of_baseline(inputs: LossInputs) -> Rankings:
    """The same of the baseline."""
    return _judged_alone(inputs.baseline.to_dict(), inputs.qrels)


def _judged_alone(rankings: Rankings, qrels: Qrels) -> Rankings:
    judged: dict[str, Mapping[str, float]] = {}
    for query, scores in rankings.items():
        grades = qrels[query]
        kept = {name: score for name, score in scores.items() if name in grades}
        if len(kept) < len(scores) and any(grade <= 0 for grade in grades.values()):
            judged[query] = kept
    return {query: scores for query, scores in judged.items() if scores}


def _why_not_condensed(inputs: LossInputs) -> str:
    grades = (grade for query in inputs.qrels for grade in inputs.qrels[query].values())
    if all(grade > 0 for grade in grades):
        return "no document is judged not relevant: only relevant documents would be left"
    return ""


CAUSES = (
    Cause(
        "lexical_score", "the lexical score is lost",
        f"the run's lexical_score, else BM25 over the index, fused back, weight {FUSION_WEIGHT:g}",
        _why_not_lexical, fuse_lexical_score,
    ),
    Cause(
        "truncation", "the text is truncated",
        f"the whole text read: at the model's greatest length, or in {WINDOWS}",
        _needs_model, read_whole_text,
    ),
    Cause(
        "passages", "passages are read, not the document",
        "whole documents scored", _why_not_whole, read_whole_documents,
    ),
    Cause(
        "depth", "too few candidates",
        "the baseline's documents scored too, and those that BM25 finds deeper in an index",
        _needs_model, score_more_candidates,
    ),
    Cause(
        "unjudged", "unjudged documents on top",
        "unjudged documents treated as not there, in both runs", _why_not_condensed,
        leave_out_unjudged, leave_out_unjudged_of_baseline,
    ),
    Cause(
        "missing", "a relevant document is no candidate",
        "the baseline's documents that are judged relevant scored too",
        _needs_model, add_judged_documents,
    ),
)  # fmt: skip
"""All causes, in the order they are shown."""
