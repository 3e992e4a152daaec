"""Label transfer: the judgement of a document carried to its passages.

`doc_labelled` lets every passage inherit it. `qa_docrank` asks a teacher which passages of a
relevant document are relevant, and draws as many negatives (Rudra, Fernando and Anand, sections
3.2 and 3.3). Both refuse test queries before anything is read or scored.

Ours: a text that is a positive of a query is not also one of its negatives, where documents
repeat each other; such negatives are left out and counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tamis.errors import InputError
from tamis.evaluation.judged_ranks import join
from tamis.labels._groups import generator
from tamis.labels.candidates import Candidates, Missing, Rows, Texts, join_texts, open_candidates
from tamis.labels.examples import ROLES, Examples
from tamis.labels.teacher_threshold import Calibration
from tamis.pipeline.cache import ScoreCache
from tamis.pipeline.document_lookup import Documents
from tamis.text.passages import PassageSpec
from tamis.types import Ids, Qrels, Run, Scorer

CLASH_COUNT = "left out: negatives that are word for word a positive"
NegativesFrom = Literal["nonrelevant", "refused", "both"]
Mask = NDArray[np.bool_]
PROBABILITY_THRESHOLD = 0.5
"""The probability above which a teacher with classes calls a text relevant."""
DOC_LABELLED_PASSAGES = "words:150:75:30"
QA_DOCRANK_PASSAGES = "words:100"
"""How either method of the paper splits documents (sections 5.2 and 3.2)."""


def doc_labelled(
    run: Run,
    qrels: Qrels,
    documents: Documents,
    *,
    test: Ids,
    grade: int = 1,
    depth: int = 100,
    passages: str | PassageSpec = DOC_LABELLED_PASSAGES,
    missing: Missing = "raise",
    seed: int = 0,
) -> Examples:
    """Every passage of every judged query's first `depth` documents with its document's label.

    A document is relevant from `grade` on; all others, judged or not, are not. None of the
    queries may be among the `test` queries. `seed` draws passages where the spec samples them.

    >>> from tamis.types import Document, Queries, Query
    >>> run = Run.from_dict({"q": {"a": 2.0, "b": 1.0}})
    >>> run = run.with_queries(Queries.of([Query("q", "flour")]))
    >>> documents = [Document("a", "Flour. Sieves."), Document("b", "Nets.")]
    >>> qrels = Qrels.from_dict({"q": {"a": 1}})
    >>> doc_labelled(
    ...     run, qrels, documents, test=Ids.of([]), passages="sentences:1:1").value.tolist()
    [1.0, 1.0, 0.0]
    """
    judged_run = _select_judged(run, qrels, test)
    with open_candidates(
        judged_run, documents, passages, depth=depth, missing=missing, seed=seed
    ) as candidates:
        judged = JudgedCandidates.of(candidates, qrels, grade)
        texts = candidates.texts(np.sort(np.concatenate([judged.relevant, judged.other])))
        positive = np.isin(texts.row, judged.relevant)
        clash = ~positive & _also_positive(candidates, texts, texts.select(positive))
        counts = {**judged.counts(), CLASH_COUNT: int(clash.sum())}
        facts = {
            "labelled_by": "transfer",
            "method": "doc-labelled",
            "grade": grade,
            "depth": depth,
        }
        return _examples(candidates, texts.select(~clash), positive[~clash], facts, counts)


def qa_docrank(
    run: Run,
    qrels: Qrels,
    documents: Documents,
    teacher: Scorer,
    *,
    test: Ids,
    threshold: float | Calibration | None = None,
    keep_best: bool = False,
    negatives_from: NegativesFrom = "both",
    least_negatives: int = 0,
    grade: int = 1,
    depth: int = 100,
    passages: str | PassageSpec = QA_DOCRANK_PASSAGES,
    cache: ScoreCache | None = None,
    missing: Missing = "raise",
    model: str = "",
    seed: int = 0,
) -> Examples:
    """Of relevant documents the passages that a teacher calls relevant, and as many negatives.

    Relevant is what scores above `threshold`: .5 where the teacher gives probabilities, else it
    must be told, or chosen by `calibrate`. A document without such a passage gives none, or with
    `keep_best` its best one. Negatives are drawn for each query from its first `depth` documents:
    passages of those that are not relevant, passages the teacher refused, or both. Only passages
    of relevant documents are ever scored. None of the queries may be among the `test` queries.
    As many negatives as positives, but `least_negatives` where there are so many.
    """
    above, threshold_facts = threshold_of(teacher, threshold)
    judged_run = _select_judged(run, qrels, test)
    with open_candidates(
        judged_run, documents, passages, depth=depth, scorer=teacher, missing=missing, seed=seed
    ) as candidates:
        judged = JudgedCandidates.of(candidates, qrels, grade)
        texts = candidates.texts(judged.relevant)
        scores = candidates.score(texts, teacher, cache)
        positive = scores.astype(np.float64) > above
        if keep_best:
            positive |= _best(texts.row, scores)  # where one is called relevant, so is the best
        if not positive.any():
            raise _no_relevant_passage_error(scores, above)
        positives, refused = texts.select(positive), texts.select(~positive)
        pool = _pool(candidates, judged, positives, refused, negatives_from)
        clash = _also_positive(candidates, pool, positives)
        negatives = _draw_negatives(
            candidates, pool.select(~clash), positives, least_negatives, seed
        )
        counts = {
            **judged.counts(), CLASH_COUNT: int(clash.sum()), **_refusals(positives, refused),
            "missing_negatives": max(0, len(positives) - len(negatives)),
        }  # fmt: skip
        facts = {
            "labelled_by": "transfer", "method": "qa-docrank", "teacher": model or _name(teacher),
            "threshold": threshold_facts, "keep_best": keep_best, "negatives_from": negatives_from,
            "grade": grade, "depth": depth,
        }  # fmt: skip
        both, order = join_texts(positives, negatives)
        return _examples(candidates, both, order < len(positives), facts, counts)


@dataclass(frozen=True, eq=False)
class JudgedCandidates:
    """The rows of candidates whose documents are relevant, and those whose are not. What was
    judged above 0 but below the grade is neither.
    """

    candidates: Candidates
    relevant: Rows
    other: Rows
    between: int
    absent: int

    @classmethod
    def of(cls, candidates: Candidates, qrels: Qrels, grade: int) -> JudgedCandidates:
        """The candidates by what they were judged; a document not judged is not relevant."""
        grade_of = grades(candidates.run, qrels)[candidates.rows]
        relevant = candidates.rows[grade_of >= grade]
        if not len(relevant):
            raise InputError(
                f"none of {len(qrels):,} judged queries has a document judged {grade} or better "
                "among its candidates",
                hint="are run and judgements of the same split? label deeper: --depth 1000",
            )
        other = candidates.rows[(grade_of <= 0) & (grade_of < grade)]
        between = len(candidates.rows) - len(relevant) - len(other)
        return cls(
            candidates, relevant, other, between, int((qrels.grade >= grade).sum()) - len(relevant)
        )

    def counts(self) -> dict[str, int]:
        """How many there are of each."""
        queries, queries_with_relevant = (
            len(np.unique(self.candidates.query[rows]))
            for rows in (self.candidates.rows, self.relevant)
        )
        return {
            "queries_without_a_relevant_candidate": queries - queries_with_relevant,
            "relevant_candidates": len(self.relevant),
            "relevant_documents_not_among_candidates": self.absent,
            "excluded_candidates_below_grade": self.between,
        }


def grades(run: Run, qrels: Qrels) -> NDArray[np.int64]:
    """The grade of every row of a run; far below zero where it is not judged.

    >>> run = Run.from_dict({"q": {"a": 2.0, "b": 1.0}})
    >>> (grades(run, Qrels.from_dict({"q": {"b": 1}})) >= 1).tolist()
    [False, True]
    """
    unjudged = -(1 << 40)
    judged = join(qrels, run)
    is_ranked = judged.rank > 0
    query_numbers = judged.queries.positions_in(run.queries.ids)[judged.query[is_ranked]]
    grade = np.full(len(run.doc), unjudged, np.int64)
    grade[run.offsets[query_numbers] + judged.rank[is_ranked] - 1] = judged.grade[is_ranked]
    return grade


def threshold_of(
    teacher: Scorer, threshold: float | Calibration | None
) -> tuple[float, dict[str, Any]]:
    """The score above which a text is relevant, and how it was come by."""
    if isinstance(threshold, Calibration):
        return threshold.threshold, {"from": "calibration", **threshold.record()}
    if threshold is not None:
        return threshold, {"from": "the caller", "threshold": threshold}
    if teacher.scale == "probability":
        return PROBABILITY_THRESHOLD, {"from": "a probability", "threshold": PROBABILITY_THRESHOLD}
    raise InputError(
        f"the teacher's scores have no classes: their scale is {teacher.scale}",
        hint="give a threshold, or choose one on examples of its own domain: --calibrate EXAMPLES",
    )


def refuse_test(queries: Ids, test: Ids) -> None:
    """Raise where one of the queries is a test query.

    >>> refuse_test(Ids.of(["q1", "q2"]), Ids.of(["q2"]))
    Traceback (most recent call last):
    tamis.errors.InputError: 1 of the 2 queries to label is a test query, such as 'q2'
    """
    test_queries = np.flatnonzero(queries.positions_in(test) >= 0)
    if len(test_queries):
        are = "is a test query" if len(test_queries) == 1 else "are test queries"
        raise InputError(
            f"{len(test_queries):,} of the {len(queries):,} queries to label {are}, "
            f"such as {queries[int(test_queries[0])]!r}",
            hint="labels are transferred for training and validation queries only: choose another "
            "--split, or judgements of others: --qrels train=FILE",
        )


def _select_judged(run: Run, qrels: Qrels, test: Ids) -> Run:
    """The rankings of the judged queries, unless one is a test query."""
    refuse_test(qrels.queries, test)
    return run.select(qrels.queries)


def _name(teacher: Scorer) -> str:
    return type(teacher).__name__


def _pairs(candidates: Candidates, texts: Texts) -> NDArray[np.uint64]:
    """A number for each query and text, the same where both are."""
    query = candidates.query[texts.row].astype(np.uint64)
    pair_keys: NDArray[np.uint64] = texts.digest ^ (query * np.uint64(0x9E3779B97F4A7C15))
    return pair_keys


def _also_positive(candidates: Candidates, texts: Texts, positives: Texts) -> Mask:
    """Which texts are, word for word, positives of the same query."""
    return np.isin(_pairs(candidates, texts), _pairs(candidates, positives))


def _best(row: Rows, scores: NDArray[np.float32]) -> Mask:
    """The best text, the first of equals, of each document."""
    order = np.lexsort((np.arange(len(row)), -scores, row))
    best = np.zeros(len(row), bool)
    best[order[np.flatnonzero(np.diff(row[order], prepend=-1))]] = True
    return best


def _pool(
    candidates: Candidates,
    judged: JudgedCandidates,
    positives: Texts,
    refused: Texts,
    negatives_from: NegativesFrom,
) -> Texts:
    """What negatives are drawn from, for queries that have a positive."""
    if negatives_from == "refused":
        return refused
    answered = np.unique(candidates.query[positives.row])
    non_relevant = candidates.texts(judged.other[np.isin(candidates.query[judged.other], answered)])
    return non_relevant if negatives_from == "nonrelevant" else join_texts(refused, non_relevant)[0]


def _draw_negatives(
    candidates: Candidates, pool: Texts, positives: Texts, least: int, seed: int
) -> Texts:
    """As many texts of the pool as each query has positives, at least so many, or all if there are
    fewer.

    Drawn by the query's id and the seed, so that other queries do not matter.
    """
    num_positives = np.bincount(candidates.query[positives.row], minlength=len(candidates.run))
    bounds = np.searchsorted(candidates.query[pool.row], np.arange(len(candidates.run) + 1))
    sampled: list[Rows] = []
    for query in np.flatnonzero(num_positives).tolist():
        start, end = int(bounds[query]), int(bounds[query + 1])
        count = min(max(least, int(num_positives[query])), end - start)
        random = generator(seed, candidates.run.queries.ids[query])
        sampled.append(start + np.sort(random.choice(end - start, count, replace=False)))
    return pool.select(np.concatenate([np.empty(0, np.int64), *sampled]))


def _refusals(positives: Texts, refused: Texts) -> dict[str, int]:
    without_positive = np.setdiff1d(refused.row, positives.row)
    return {
        "passages_of_relevant_candidates": len(positives) + len(refused),
        "passages_rejected_by_teacher": len(refused),
        "relevant_candidates_without_a_positive_passage": len(without_positive),
    }


def _no_relevant_passage_error(scores: NDArray[np.float32], above: float) -> InputError:
    best = f"the best scores {scores.max():.4g}" if len(scores) else "they have no text"
    return InputError(
        f"the teacher calls none of {len(scores):,} passages relevant: {best}, not above {above:g}",
        hint="choose the threshold on examples of its own domain, or keep the best of each "
        "document: --keep-best",
    )


def _examples(
    candidates: Candidates,
    texts: Texts,
    positive: Mask,
    facts: dict[str, Any],
    counts: dict[str, int],
) -> Examples:
    return candidates.examples(
        texts,
        positive,
        np.where(positive, ROLES.index("positive"), ROLES.index("negative")).astype(np.int8),
        source="transferred",
        kind="class",
        facts=facts,
        counts=counts,
    )
