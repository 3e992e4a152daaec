"""Label transfer: the judgement of a document carried to its passages.

`doc_labelled` lets every passage inherit it. `qa_docrank` asks a teacher which passages of a
relevant document are relevant, and draws as many negatives (Rudra, Fernando and Anand, sections
3.2 and 3.3). Both refuse test queries before anything is read or scored.

Ours: a text that is a positive of a query is not also one of its negatives, where documents
repeat each other; such negatives are left out and counted.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tamis.errors import InputError
from tamis.labels._groups import generator
from tamis.labels.candidates import Candidates, Missing, Rows, Texts, candidates, join_texts
from tamis.labels.examples import ROLES, Examples
from tamis.labels.judged_candidates import JudgedCandidates
from tamis.labels.teacher_threshold import Calibration
from tamis.pipeline.cache import ScoreCache
from tamis.pipeline.document_lookup import Documents
from tamis.text.passages import PassageSpec
from tamis.types import Ids, Qrels, Run, Scorer

CLASHES = "left out: negatives that are word for word a positive"
NegativesFrom = Literal["nonrelevant", "refused", "both"]
Mask = NDArray[np.bool_]
EVEN = 0.5
"""The probability above which a teacher with classes calls a text relevant."""
DOC_LABELLED = "words:150:75:30"
QA_DOCRANK = "words:100"
"""How either method of the paper splits documents (sections 5.2 and 3.2)."""


def doc_labelled(
    run: Run,
    qrels: Qrels,
    documents: Documents,
    *,
    test: Ids,
    grade: int = 1,
    depth: int = 100,
    passages: str | PassageSpec = DOC_LABELLED,
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
    asked = _asked(run, qrels, test)
    with candidates(asked, documents, passages, depth=depth, missing=missing, seed=seed) as found:
        judged = JudgedCandidates.of(found, qrels, grade)
        texts = found.texts(np.sort(np.concatenate([judged.relevant, judged.other])))
        positive = np.isin(texts.row, judged.relevant)
        clash = ~positive & _also_positive(found, texts, texts.select(positive))
        counts = {**judged.counts(), CLASHES: int(clash.sum())}
        facts = {"made by": "transfer", "method": "doc-labelled", "grade": grade, "depth": depth}
        return _examples(found, texts.select(~clash), positive[~clash], facts, counts)


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
    passages: str | PassageSpec = QA_DOCRANK,
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
    above, how = threshold_of(teacher, threshold)
    asked = _asked(run, qrels, test)
    with candidates(
        asked, documents, passages, depth=depth, scorer=teacher, missing=missing, seed=seed
    ) as found:
        judged = JudgedCandidates.of(found, qrels, grade)
        texts = found.texts(judged.relevant)
        scores = found.score(texts, teacher, cache)
        positive = scores.astype(np.float64) > above
        if keep_best:
            positive |= _best(texts.row, scores)  # where one is called relevant, so is the best
        if not positive.any():
            raise _none_called_relevant(scores, above)
        kept, refused = texts.select(positive), texts.select(~positive)
        pool = _pool(found, judged, kept, refused, negatives_from)
        clash = _also_positive(found, pool, kept)
        drawn = _drawn(found, pool.select(~clash), kept, least_negatives, seed)
        counts = {
            **judged.counts(), CLASHES: int(clash.sum()), **_refusals(kept, refused),
            "negatives lacking": max(0, len(kept) - len(drawn)),
        }  # fmt: skip
        facts = {
            "made by": "transfer", "method": "qa-docrank", "teacher": model or _name(teacher),
            "threshold": how, "keep best": keep_best, "negatives from": negatives_from,
            "grade": grade, "depth": depth,
        }  # fmt: skip
        both, order = join_texts(kept, drawn)
        return _examples(found, both, order < len(kept), facts, counts)


def threshold_of(
    teacher: Scorer, threshold: float | Calibration | None
) -> tuple[float, dict[str, Any]]:
    """The score above which a text is relevant, and how it was come by."""
    if isinstance(threshold, Calibration):
        return threshold.threshold, {"from": "calibration", **threshold.record()}
    if threshold is not None:
        return threshold, {"from": "the caller", "threshold": threshold}
    if teacher.scale == "probability":
        return EVEN, {"from": "a probability", "threshold": EVEN}
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
    among = np.flatnonzero(queries.positions_in(test) >= 0)
    if len(among):
        are = "is a test query" if len(among) == 1 else "are test queries"
        raise InputError(
            f"{len(among):,} of the {len(queries):,} queries to label {are}, "
            f"such as {queries[int(among[0])]!r}",
            hint="labels are transferred for training and validation queries only: choose another "
            "--split, or judgements of others: --qrels train=FILE",
        )


def _asked(run: Run, qrels: Qrels, test: Ids) -> Run:
    """The rankings of the judged queries, unless one is a test query."""
    refuse_test(qrels.queries, test)
    return run.select(qrels.queries)


def _name(teacher: Scorer) -> str:
    return type(teacher).__name__


def _pairs(found: Candidates, texts: Texts) -> NDArray[np.uint64]:
    """A number for each query and text, the same where both are."""
    query = found.query[texts.row].astype(np.uint64)
    mixed: NDArray[np.uint64] = texts.digest ^ (query * np.uint64(0x9E3779B97F4A7C15))
    return mixed


def _also_positive(found: Candidates, texts: Texts, positives: Texts) -> Mask:
    """Which texts are, word for word, positives of the same query."""
    return np.isin(_pairs(found, texts), _pairs(found, positives))


def _best(row: Rows, scores: NDArray[np.float32]) -> Mask:
    """The best text, the first of equals, of each document."""
    order = np.lexsort((np.arange(len(row)), -scores, row))
    best = np.zeros(len(row), bool)
    best[order[np.flatnonzero(np.diff(row[order], prepend=-1))]] = True
    return best


def _pool(
    found: Candidates, judged: JudgedCandidates, kept: Texts, refused: Texts, wanted: NegativesFrom
) -> Texts:
    """What negatives are drawn from, for queries that have a positive."""
    if wanted == "refused":
        return refused
    answered = np.unique(found.query[kept.row])
    others = found.texts(judged.other[np.isin(found.query[judged.other], answered)])
    return others if wanted == "nonrelevant" else join_texts(refused, others)[0]


def _drawn(found: Candidates, pool: Texts, positives: Texts, least: int, seed: int) -> Texts:
    """As many texts of the pool as each query has positives, at least so many, or all if there are
    fewer.

    Drawn by the query's id and the seed, so that other queries do not matter.
    """
    wanted = np.bincount(found.query[positives.row], minlength=len(found.run))
    bounds = np.searchsorted(found.query[pool.row], np.arange(len(found.run) + 1))
    kept: list[Rows] = []
    for query in np.flatnonzero(wanted).tolist():
        start, end = int(bounds[query]), int(bounds[query + 1])
        count = min(max(least, int(wanted[query])), end - start)
        random = generator(seed, found.run.queries.ids[query])
        kept.append(start + np.sort(random.choice(end - start, count, replace=False)))
    return pool.select(np.concatenate([np.empty(0, np.int64), *kept]))


def _refusals(kept: Texts, refused: Texts) -> dict[str, int]:
    silent = np.setdiff1d(refused.row, kept.row)
    return {
        "passages of relevant candidates": len(kept) + len(refused),
        "passages the teacher refused": len(refused),
        "relevant candidates without a positive passage": len(silent),
    }


def _none_called_relevant(scores: NDArray[np.float32], above: float) -> InputError:
    best = f"the best scores {scores.max():.4g}" if len(scores) else "they have no text"
    return InputError(
        f"the teacher calls none of {len(scores):,} passages relevant: {best}, not above {above:g}",
        hint="choose the threshold on examples of its own domain, or keep the best of each "
        "document: --keep-best",
    )


def _examples(
    found: Candidates, texts: Texts, positive: Mask, facts: dict[str, Any], counts: dict[str, int]
) -> Examples:
    return found.examples(
        texts,
        positive,
        np.where(positive, ROLES.index("positive"), ROLES.index("negative")).astype(np.int8),
        source="transferred",
        kind="class",
        facts=facts,
        counts=counts,
    )
