"""Examples from whatever one has: documents, and perhaps queries, judgements, a run, a model.

Every maker takes an index, a collection, documents or a path; public as `tamis.label`. Which
queries may be labelled is decided in `selection`; test queries never are.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Literal

from tamis.collection.loss_notes import counted
from tamis.collection.objects import AnyDocuments, AnyQueries
from tamis.errors import InputError
from tamis.labels import gold as _gold
from tamis.labels import pseudo as _pseudo
from tamis.labels import synthetic as _synthetic
from tamis.labels import teacher as _teacher
from tamis.labels import transfer as _transfer
from tamis.labels import weak as _weak
from tamis.labels._groups import sample_queries
from tamis.labels.duplicate_negatives import without_copies
from tamis.labels.example_files import read_examples
from tamis.labels.examples import TEST_HASHES, Examples
from tamis.labels.gold import Negatives
from tamis.labels.held_out import without_leaks
from tamis.labels.inputs import Judgements, LabelInputs, OnError, RankingName, open_inputs
from tamis.labels.query_generation import MADE
from tamis.labels.scoring_models import (
    ScoringModel,
    kept_scores,
    lexical_ranker,
    open_scoring_model,
)
from tamis.labels.selection import (
    candidates_of,
    document_ids,
    held_out_queries,
    judgements,
    log_held_out,
    queries_to_label,
    sampled_candidates,
    searchable,
    source_of,
    with_facts,
)
from tamis.labels.teacher_threshold import Calibration, calibrate
from tamis.labels.transfer import NegativesFrom
from tamis.models import Ranker
from tamis.pipeline.cache import ScoreCache
from tamis.pipeline.document_lookup import library
from tamis.search import Index
from tamis.types import Ids, Run

Inputs = AnyDocuments | Index | LabelInputs
Candidates = Run | str | Path | None
"""A run or its file; without one the index is searched."""
_log = logging.getLogger(__name__)


def gold(
    documents: Inputs,
    queries: AnyQueries | None = None,
    qrels: Judgements | None = None,
    *,
    split: str | None = None,
    run: Candidates = None,
    ranking: RankingName = "bm25",
    grade: int = 1,
    negatives: Negatives = "run",
    negatives_per_query: int | None = None,
    depth: int = 100,
    sample: int | None = None,
    seed: int = 0,
    threads: int | None = None,
    on_error: OnError = "raise",
) -> Examples:
    """Judged relevant is positive; what the first stage finds beside it, or others, negative.

    >>> from tempfile import mkdtemp
    >>> texts = ["a drum sieve", "a fine sieve", "a net"]
    >>> index = Index.build(texts, Path(mkdtemp()) / "index")
    >>> made = gold(index, {"q1": "drum sieve"}, {"q1": {"0": 1}})
    >>> made.docs.take(made.doc), made.value.tolist()
    (['0', '1'], [1.0, 0.0])
    """
    inputs = _opened(documents, queries, qrels, split, on_error, run, ranking)
    judged = judgements(inputs)
    asked = queries_to_label(inputs, judged.queries)
    searched = negatives in ("run", "mixed")
    found = candidates_of(inputs, asked, depth, threads) if searched else None
    made = _gold.gold(
        judged, asked, found, document_ids(inputs), grade=grade, negatives=negatives,
        negatives_per_query=negatives_per_query, depth=depth, seed=seed, missing=inputs.on_error,
    )  # fmt: skip
    if made.is_role("positive").all():
        _log.warning("there are no negatives: try others, --negatives-from run, random or mixed")
    return _finished(made, inputs, sample, seed, searched=searched)


def pseudo(
    documents: Inputs,
    queries: AnyQueries | None = None,
    *,
    split: str | None = None,
    run: Candidates = None,
    ranking: RankingName = "bm25",
    negatives_per_query: int | None = 10,
    positives: int = 1,
    first: int | None = None,
    depth: int = 100,
    margin: float | None = None,
    sample: int | None = None,
    seed: int = 0,
    threads: int | None = None,
    on_error: OnError = "raise",
) -> Examples:
    """The first stage's first document is positive, others of its list negative: no judgements.

    >>> from tempfile import mkdtemp
    >>> texts = ["a drum sieve", "a fine sieve", "a net"]
    >>> index = Index.build(texts, Path(mkdtemp()) / "index")
    >>> made = pseudo(index, ["drum sieve"])
    >>> made.docs.take(made.doc), made.queries.texts
    (['0', '1'], ('drum sieve',))
    """
    inputs = _opened(documents, queries, None, split, on_error, run, ranking)
    found = candidates_of(inputs, queries_to_label(inputs, log=True), depth, threads)
    made = _pseudo.pseudo(
        found, negatives_per_query=negatives_per_query, positives=positives, first=first,
        depth=depth, margin=margin, seed=seed,
    )  # fmt: skip
    return _finished(made, inputs, sample, seed)


def synthetic(
    documents: Inputs,
    *,
    ranking: RankingName = "bm25",
    count: int = 1000,
    made_of: Literal["title", "sentence", "both"] = "both",
    passages: str = "words:150",
    negatives_per_query: int | None = 10,
    depth: int = 100,
    seed: int = 0,
    threads: int | None = None,
    on_error: OnError = "raise",
) -> Examples:
    """Queries made from the documents of an index, each against its own document."""
    inputs = _opened(documents, None, None, None, on_error, None, ranking)
    index = searchable(inputs)
    made = _synthetic.synthetic(
        index, source_of(inputs, threads), count=count,
        made_of=MADE if made_of == "both" else (made_of,), passages=passages,
        negatives_per_query=negatives_per_query, depth=depth, seed=seed,
    )  # fmt: skip
    origins = Ids.of({origin.doc_id for origin in made.origins.values()})
    with library(index, made.docs.union(origins)) as opened:
        made, leaks = without_leaks(made, inputs.held_out, opened)
    if len(leaks):
        _log.info(
            "left out because of the test queries they repeat: %s", counted(len(leaks), "query")
        )
    if made.groups < count:
        _log.info("%s instead of %s: no more, or none with a negative",
                  counted(made.groups, "query"), f"{count:,}")  # fmt: skip
    return _finished(made, inputs, None, seed)


def weak(
    documents: Inputs,
    queries: AnyQueries | None = None,
    qrels: Judgements | None = None,
    *,
    model: ScoringModel = "lexical",
    k1: float = 1.2,
    b: float = 0.75,
    split: str | None = None,
    run: Candidates = None,
    ranking: RankingName = "bm25",
    depth: int = 100,
    passages: str = "whole",
    sample: int | None = None,
    cache: str | Path | None = None,
    seed: int = 0,
    threads: int | None = None,
    on_error: OnError = "raise",
) -> Examples:
    """Candidates with an unsupervised score, put on 0 to 5 within each query.

    >>> from tempfile import mkdtemp
    >>> index = Index.build(["a drum sieve", "a sieve"], Path(mkdtemp()) / "index")
    >>> weak(index, ["drum sieve"]).value.tolist()
    [5.0, 0.0]
    """
    inputs = _opened(documents, queries, qrels, split, on_error, run, ranking)
    found = sampled_candidates(inputs, depth, sample, seed, threads)
    is_lexical = model == "lexical"
    ranker = (
        lexical_ranker(inputs, k1, b) if is_lexical else open_scoring_model(model, inputs, threads)
    )
    with kept_scores(cache, ranker) as scores:
        made = _weak.weak(
            found, ranker.scorer, inputs.documents, passages=passages, depth=depth, cache=scores,
            missing=inputs.on_error, model=ranker.name, seed=seed,
        )  # fmt: skip
    return _scored(made, inputs, sample)


def teacher(
    documents: Inputs,
    queries: AnyQueries | None = None,
    qrels: Judgements | None = None,
    *,
    model: ScoringModel,
    service_model: str = "",
    key: str = "",
    split: str | None = None,
    run: Candidates = None,
    ranking: RankingName = "bm25",
    depth: int = 100,
    passages: str = "whole",
    sample: int | None = None,
    cache: str | Path | None = None,
    seed: int = 0,
    threads: int | None = None,
    on_error: OnError = "raise",
) -> Examples:
    """Candidates with the scores of a strong model or service, for a small one to learn."""
    inputs = _opened(documents, queries, qrels, split, on_error, run, ranking)
    found = sampled_candidates(inputs, depth, sample, seed, threads)
    ranker = open_scoring_model(model, inputs, threads, service_model, key)
    with kept_scores(cache, ranker) as scores:
        made = _teacher.teacher(
            found, ranker.scorer, inputs.documents, passages=passages, depth=depth, cache=scores,
            missing=inputs.on_error, model=ranker.name, seed=seed,
        )  # fmt: skip
    return _scored(made, inputs, sample)


def transfer(
    documents: Inputs,
    queries: AnyQueries | None = None,
    qrels: Judgements | None = None,
    *,
    model: ScoringModel | None = None,
    service_model: str = "",
    key: str = "",
    threshold: float | None = None,
    calibrate_with: Examples | str | Path | None = None,
    calibrate_on: Inputs | None = None,
    keep_best: bool = False,
    negatives_from: NegativesFrom = "both",
    grade: int = 1,
    split: str | None = None,
    run: Candidates = None,
    ranking: RankingName = "ql",
    depth: int = 100,
    passages: str | None = None,
    sample: int | None = None,
    cache: str | Path | None = None,
    seed: int = 0,
    threads: int | None = None,
    on_error: OnError = "raise",
) -> Examples:
    """Documents' judgements carried to their passages; test queries are refused.

    With a `model` it says which passages of a relevant document are relevant (QA-DocRank);
    without one every passage inherits its document's label. `calibrate_with` chooses the threshold
    on gold examples, which are of `calibrate_on`, or of the same documents.
    """
    inputs = _opened(documents, queries, qrels, split, on_error, run, ranking)
    judged, test = judgements(inputs), held_out_queries(inputs)
    if (judged.queries.positions_in(test) >= 0).all():
        _transfer.refuse_test(judged.queries, test)
    found = sampled_candidates(inputs, depth, sample, seed, threads, judged.queries)
    judged = judged.select(found.queries.ids)
    if model is None:
        made = _transfer.doc_labelled(
            found, judged, inputs.documents, test=test, grade=grade, depth=depth,
            passages=passages or _transfer.DOC_LABELLED, missing=inputs.on_error, seed=seed,
        )  # fmt: skip
        return _scored(made, inputs, sample)
    ranker = open_scoring_model(model, inputs, threads, service_model, key)
    with kept_scores(cache, ranker) as scores:
        other = inputs if calibrate_on is None else open_inputs(calibrate_on)
        chosen = _calibrated(ranker, calibrate_with, other, scores)
        made = _transfer.qa_docrank(
            found, judged, inputs.documents, ranker.scorer, test=test,
            threshold=chosen or threshold, keep_best=keep_best, negatives_from=negatives_from,
            grade=grade, depth=depth, passages=passages or _transfer.QA_DOCRANK, cache=scores,
            missing=inputs.on_error, model=ranker.name, seed=seed,
        )  # fmt: skip
    return _scored(made, inputs, sample)


def _opened(
    documents: Inputs,
    queries: AnyQueries | None,
    qrels: Judgements | None,
    split: str | None,
    on_error: OnError,
    run: Candidates,
    ranking: RankingName,
) -> LabelInputs:
    if isinstance(documents, LabelInputs):
        if any(thing is not None for thing in (queries, qrels, split, run)):
            raise InputError(
                "what is labelled is opened already",
                hint="hand queries, judgements and split to open_inputs, a run to with_candidates",
            )
        return documents
    inputs = open_inputs(documents, None, queries, qrels, split, on_error)
    return inputs.with_candidates(run, ranking)


def _calibrated(
    ranker: Ranker,
    examples: Examples | str | Path | None,
    inputs: LabelInputs,
    cache: ScoreCache | None,
) -> Calibration | None:
    """The threshold chosen on examples, none of which may be of a test query."""
    if examples is None:
        return None
    name = "examples" if isinstance(examples, Examples) else str(examples)
    read = examples if isinstance(examples, Examples) else read_examples(examples)
    known = inputs.known_queries
    if known is not None:
        read = read.with_queries(known)
    hashes = inputs.held_out.hashes | {*read.facts.get(TEST_HASHES, ())}
    with library(inputs.documents, read.docs) as texts:
        leaks = without_leaks(read, replace(inputs.held_out, hashes=hashes), texts)[1]
    _transfer.refuse_test(read.queries.ids, leaks)
    chosen = calibrate(
        ranker.scorer, read, inputs.documents, cache=cache, name=f"{name} of {inputs.name}"
    )
    _log.info(
        "threshold: %.4g, balanced accuracy %.3f on %s relevant and %s other texts",
        chosen.threshold, chosen.balanced_accuracy, f"{chosen.positives:,}",
        f"{chosen.negatives:,}",
    )  # fmt: skip
    return chosen


def _finished(
    made: Examples, inputs: LabelInputs, sample: int | None, seed: int, *, searched: bool = True
) -> Examples:
    """Without copies of positives, or a sample of that, with the facts recorded."""
    made = without_copies(made, inputs.documents)
    made = sample_queries(made, sample, seed=seed) if sample else made
    log_held_out(inputs)
    return with_facts(made, inputs, sample, searched=searched)


def _scored(made: Examples, inputs: LabelInputs, sample: int | None) -> Examples:
    if not len(made):
        raise InputError("no query has a candidate with a text", hint="is it the right collection?")
    log_held_out(inputs)
    return with_facts(made, inputs, sample)
