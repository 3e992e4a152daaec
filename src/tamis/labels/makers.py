"""Examples from whatever one has: documents, and perhaps queries, judgements, a run, a model.

Every maker takes an index, a collection, documents or a path; public as `tamis.label`. Which
queries may be labelled is decided in `selection`; test queries never are.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
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
from tamis.labels.duplicate_negatives import drop_copies
from tamis.labels.example_files import read_examples
from tamis.labels.examples import TEST_HASHES, Examples
from tamis.labels.gold import Negatives
from tamis.labels.held_out import drop_leaks
from tamis.labels.inputs import Judgements, LabelInputs, OnError, RankingName, open_inputs
from tamis.labels.query_generation import QUERY_FORMS
from tamis.labels.scoring_models import (
    RunOn,
    ScoringModel,
    lexical_ranker,
    open_score_cache,
    open_scoring_model,
)
from tamis.labels.selection import (
    candidates_of,
    document_ids,
    held_out_queries,
    judgements,
    log_held_out,
    queries_to_label,
    require_index,
    sample_candidates,
    source_of,
    with_facts,
)
from tamis.labels.teacher_threshold import Calibration, calibrate
from tamis.labels.transfer import NegativesFrom
from tamis.models import Ranker
from tamis.pipeline.cache import ScoreCache
from tamis.pipeline.document_lookup import open_lookup
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
    >>> examples = gold(index, {"q1": "drum sieve"}, {"q1": {"0": 1}})
    >>> examples.docs.take(examples.doc), examples.value.tolist()
    (['0', '1'], [1.0, 0.0])
    """
    inputs = _open(documents, queries, qrels, split, on_error, run, ranking)
    judged = judgements(inputs)
    to_label = queries_to_label(inputs, judged.queries)
    searched = negatives in ("run", "mixed")
    candidates = candidates_of(inputs, to_label, depth, threads) if searched else None
    examples = _gold.gold(
        judged, to_label, candidates, document_ids(inputs), grade=grade, negatives=negatives,
        negatives_per_query=negatives_per_query, depth=depth, seed=seed, missing=inputs.on_error,
    )  # fmt: skip
    if examples.is_role("positive").all():
        _log.warning("there are no negatives: try others, --negatives-from run, random or mixed")
    return _finish(examples, inputs, sample, seed, searched=searched)


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
    >>> examples = pseudo(index, ["drum sieve"])
    >>> examples.docs.take(examples.doc), examples.queries.texts
    (['0', '1'], ('drum sieve',))
    """
    inputs = _open(documents, queries, None, split, on_error, run, ranking)
    candidates = candidates_of(inputs, queries_to_label(inputs, log=True), depth, threads)
    examples = _pseudo.pseudo(
        candidates, negatives_per_query=negatives_per_query, positives=positives, first=first,
        depth=depth, margin=margin, seed=seed,
    )  # fmt: skip
    return _finish(examples, inputs, sample, seed)


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
    inputs = _open(documents, None, None, None, on_error, None, ranking)
    index = require_index(inputs)
    examples = _synthetic.synthetic(
        index, source_of(inputs, threads), count=count,
        made_of=QUERY_FORMS if made_of == "both" else (made_of,), passages=passages,
        negatives_per_query=negatives_per_query, depth=depth, seed=seed,
    )  # fmt: skip
    origins = Ids.of({origin.doc_id for origin in examples.origins.values()})
    with open_lookup(index, examples.docs.union(origins)) as lookup:
        examples, leaks = drop_leaks(examples, inputs.held_out, lookup)
    if len(leaks):
        _log.info(
            "left out because of the test queries they repeat: %s", counted(len(leaks), "query")
        )
    if examples.groups < count:
        _log.info("%s instead of %s: no more, or none with a negative",
                  counted(examples.groups, "query"), f"{count:,}")  # fmt: skip
    return _finish(examples, inputs, None, seed)


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
    inputs = _open(documents, queries, qrels, split, on_error, run, ranking)
    candidates = sample_candidates(inputs, depth, sample, seed, threads)
    ranker = (
        lexical_ranker(inputs, k1, b)
        if model == "lexical"
        else open_scoring_model(model, inputs, threads)
    )
    settings = _ScoringSettings(depth, passages, sample, cache, seed)
    return _label_by_scores(_weak.weak, candidates, ranker, inputs, settings)


def teacher(
    documents: Inputs,
    queries: AnyQueries | None = None,
    qrels: Judgements | None = None,
    *,
    model: ScoringModel,
    device: str = "auto",
    dtype: str = "auto",
    trust_remote_code: str | Path | bool = False,
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
    inputs = _open(documents, queries, qrels, split, on_error, run, ranking)
    candidates = sample_candidates(inputs, depth, sample, seed, threads)
    where: RunOn = {"device": device, "dtype": dtype, "trust_remote_code": trust_remote_code}
    ranker = open_scoring_model(model, inputs, threads, service_model, key, where)
    settings = _ScoringSettings(depth, passages, sample, cache, seed)
    return _label_by_scores(_teacher.teacher, candidates, ranker, inputs, settings)


def transfer(
    documents: Inputs,
    queries: AnyQueries | None = None,
    qrels: Judgements | None = None,
    *,
    model: ScoringModel | None = None,
    device: str = "auto",
    dtype: str = "auto",
    trust_remote_code: str | Path | bool = False,
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
    inputs = _open(documents, queries, qrels, split, on_error, run, ranking)
    judged, test = judgements(inputs), held_out_queries(inputs)
    if (judged.queries.positions_in(test) >= 0).all():
        _transfer.refuse_test(judged.queries, test)
    candidates = sample_candidates(inputs, depth, sample, seed, threads, judged.queries)
    judged = judged.select(candidates.queries.ids)
    if model is None:
        examples = _transfer.doc_labelled(
            candidates, judged, inputs.documents, test=test, grade=grade, depth=depth,
            passages=passages or _transfer.DOC_LABELLED_PASSAGES, missing=inputs.on_error,
            seed=seed,
        )  # fmt: skip
        return _finish_scored(examples, inputs, sample)
    where: RunOn = {"device": device, "dtype": dtype, "trust_remote_code": trust_remote_code}
    ranker = open_scoring_model(model, inputs, threads, service_model, key, where)
    with open_score_cache(cache, ranker) as scores:
        calibration_inputs = inputs if calibrate_on is None else open_inputs(calibrate_on)
        calibration = _calibrate(ranker, calibrate_with, calibration_inputs, scores)
        examples = _transfer.qa_docrank(
            candidates, judged, inputs.documents, ranker.scorer, test=test,
            threshold=calibration or threshold, keep_best=keep_best, negatives_from=negatives_from,
            grade=grade, depth=depth, passages=passages or _transfer.QA_DOCRANK_PASSAGES,
            cache=scores, missing=inputs.on_error, model=ranker.name, seed=seed,
        )  # fmt: skip
    return _finish_scored(examples, inputs, sample)


def _open(
    documents: Inputs,
    queries: AnyQueries | None,
    qrels: Judgements | None,
    split: str | None,
    on_error: OnError,
    run: Candidates,
    ranking: RankingName,
) -> LabelInputs:
    if isinstance(documents, LabelInputs):
        if any(argument is not None for argument in (queries, qrels, split, run)):
            raise InputError(
                "the inputs are open already",
                hint="hand queries, judgements and split to open_inputs, a run to with_candidates",
            )
        return documents
    inputs = open_inputs(documents, None, queries, qrels, split, on_error)
    return inputs.with_candidates(run, ranking)


@dataclass(frozen=True)
class _ScoringSettings:
    """What labels from scores have in common."""

    depth: int
    passages: str
    sample: int | None
    cache: str | Path | None
    seed: int


def _label_by_scores(
    label: Callable[..., Examples],
    candidates: Run,
    ranker: Ranker,
    inputs: LabelInputs,
    settings: _ScoringSettings,
) -> Examples:
    """Label candidates by their scores, which are kept in the cache."""
    with open_score_cache(settings.cache, ranker) as scores:
        examples = label(
            candidates, ranker.scorer, inputs.documents, passages=settings.passages,
            depth=settings.depth, cache=scores, missing=inputs.on_error, model=ranker.name,
            seed=settings.seed,
        )  # fmt: skip
    return _finish_scored(examples, inputs, settings.sample)


def _calibrate(
    ranker: Ranker,
    examples: Examples | str | Path | None,
    inputs: LabelInputs,
    cache: ScoreCache | None,
) -> Calibration | None:
    """The threshold chosen on examples, none of which may be of a test query."""
    if examples is None:
        return None
    name = "examples" if isinstance(examples, Examples) else str(examples)
    gold_examples = examples if isinstance(examples, Examples) else read_examples(examples)
    queries = inputs.available_queries
    if queries is not None:
        gold_examples = gold_examples.with_queries(queries)
    hashes = inputs.held_out.hashes | {*gold_examples.facts.get(TEST_HASHES, ())}
    with open_lookup(inputs.documents, gold_examples.docs) as lookup:
        leaks = drop_leaks(gold_examples, replace(inputs.held_out, hashes=hashes), lookup)[1]
    _transfer.refuse_test(gold_examples.queries.ids, leaks)
    calibration = calibrate(
        ranker.scorer, gold_examples, inputs.documents, cache=cache, name=f"{name} of {inputs.name}"
    )
    _log.info(
        "threshold: %.4g, balanced accuracy %.3f on %s relevant and %s other texts",
        calibration.threshold, calibration.balanced_accuracy, f"{calibration.positives:,}",
        f"{calibration.negatives:,}",
    )  # fmt: skip
    return calibration


def _finish(
    examples: Examples, inputs: LabelInputs, sample: int | None, seed: int, *, searched: bool = True
) -> Examples:
    """Without copies of positives, or a sample of that, with the facts recorded."""
    examples = drop_copies(examples, inputs.documents)
    examples = sample_queries(examples, sample, seed=seed) if sample else examples
    log_held_out(inputs)
    return with_facts(examples, inputs, sample, searched=searched)


def _finish_scored(examples: Examples, inputs: LabelInputs, sample: int | None) -> Examples:
    if not len(examples):
        raise InputError("no query has a candidate with a text", hint="is it the right collection?")
    log_held_out(inputs)
    return with_facts(examples, inputs, sample)
