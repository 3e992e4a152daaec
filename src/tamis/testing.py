"""Contracts for anyone's own scorers, sources and stages, to be called from a test.

Each returns nothing if the contract is kept and raises `AssertionError` with a sentence that says
which part of it is not.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from tamis.errors import TamisError, UnknownKindError
from tamis.registry import NO_OPENERS, Openers, Opening
from tamis.types import Ids, Pairs, Queries, Run, Scorer, Scores, Source, Spec, Stage
from tamis.types.pipeline import Scale

SourceOrStage = TypeVar("SourceOrStage", Source, Stage)
TOLERANCE = 1e-5
"""How far the score of a pair may lie from its score in another batch."""
LONG_TEXT = 5000
"""Words of the text that is long enough to be truncated, where a scorer truncates."""
_QUERIES = ("how does a drum sieve work", "grain", "Ünïcödé 円い箱 🙂?")
_TEXTS = (
    "A drum sieve, or tamis, is a net stretched over a frame through which flour is rubbed.",
    "Grain",
    "Rivers flow to the sea; " * 20,
    "Control \x07 characters, emoji 🙂 and accents: é è ü.",
    "How does it work? Nobody knows.",
)


def check_scorer(scorer: Scorer, pairs: Pairs | None = None, long_text: int = LONG_TEXT) -> None:
    """One finite score per pair, in pair order, the same in any batch, nothing silently truncated.

    `pairs` are what is scored (without them, a few with texts short and long, plain and odd);
    `long_text` is how many words the text has with which cutting is tried out.
    """
    _check_scale(scorer)
    pairs = pairs or _sample_pairs()
    _check_nothing_to_score(scorer)
    scores = _scored(scorer, pairs)
    again = _scored(scorer, pairs)
    _require(
        np.array_equal(scores.values, again.values)
        and np.array_equal(scores.truncated_tokens, again.truncated_tokens),
        "scoring the same pairs twice gives different scores",
    )
    _check_order(scorer, pairs, scores)
    _check_batch_of_one(scorer, pairs, scores)
    _check_truncation(scorer, long_text)


def _require(holds: bool, sentence: str) -> None:
    if not holds:
        raise AssertionError(sentence)


def _check_scale(scorer: Scorer) -> None:
    scales = get_args(Scale)
    scale = getattr(scorer, "scale", None)
    _require(scale in scales, f"the scale is {scale!r}, not one of {', '.join(scales)}")


def _sample_pairs() -> Pairs:
    every = np.indices((len(_QUERIES), len(_TEXTS)), np.int32).reshape(2, -1).T
    return Pairs(_QUERIES, _TEXTS, np.ascontiguousarray(every))


def _scored(scorer: Scorer, pairs: Pairs) -> Scores:
    """Score pairs and check what must be true of any answer."""
    scores = scorer.score(pairs)
    for name, column in (
        ("scores", scores.values),
        ("counts of truncated tokens", scores.truncated_tokens),
    ):
        shape = np.shape(column)
        _require(shape == (len(pairs),), f"{len(pairs)} pairs but {name} of shape {shape}")
    _require(scores.values.dtype == np.float32, f"scores are {scores.values.dtype}, not float32")
    _require(bool(np.isfinite(scores.values).all()), "a score is not a finite number")
    _require(
        np.issubdtype(scores.truncated_tokens.dtype, np.integer)
        and bool((scores.truncated_tokens >= 0).all()),
        "a count of truncated tokens is not a whole number from 0 on",
    )
    if scorer.scale == "probability":
        inside = (scores.values >= 0) & (scores.values <= 1)
        _require(bool(inside.all()), "the scale is probability but a score lies outside 0 to 1")
    return scores


def _check_nothing_to_score(scorer: Scorer) -> None:
    nothing = np.empty((0, 2), np.int32)
    _scored(scorer, Pairs([], [], nothing))
    _scored(scorer, Pairs(_QUERIES, _TEXTS, nothing))


def _near(actual: NDArray[np.float32], expected: NDArray[np.float32]) -> bool:
    return bool(np.allclose(actual, expected, rtol=TOLERANCE, atol=TOLERANCE))


def _check_order(scorer: Scorer, pairs: Pairs, scores: Scores) -> None:
    """Pairs, queries and texts each turned round must leave every pair's score alone."""
    turned = _scored(scorer, Pairs(pairs.queries, pairs.texts, pairs.index[::-1].copy()))
    _require(_near(turned.values[::-1], scores.values), "scores do not come back in pair order")
    last = np.array([len(pairs.queries), len(pairs.texts)], np.int32) - 1
    renumbered = Pairs(
        pairs.queries[::-1], pairs.texts[::-1], (last - pairs.index).astype(np.int32)
    )
    _require(
        _near(_scored(scorer, renumbered).values, scores.values),
        "the score of a pair changes with the numbers of its query and text",
    )


def _check_batch_of_one(scorer: Scorer, pairs: Pairs, scores: Scores) -> None:
    for row, value in enumerate(scores.values):
        alone = _scored(scorer, Pairs(pairs.queries, pairs.texts, pairs.index[row : row + 1]))
        _require(
            _near(alone.values, np.array([value])),
            f"pair {row} scores {alone.values[0]:g} alone and {value:g} among others",
        )


def _check_truncation(scorer: Scorer, words: int) -> None:
    """Words that change the score of a short text must do so at the end of a long one, or be
    counted as truncated.

    The words are the query's own, which no scorer that reads them can overlook.
    """
    query, filler = "drum sieve", "rivers flow to the sea and "
    short = filler
    long = filler * (words // len(filler.split()) + 1)
    texts = [short, short + query, long, long + query]
    index = np.array([[0, number] for number in range(4)], np.int32)
    scores = _scored(scorer, Pairs([query], texts, index))
    values = scores.values.tolist()
    unread = values[0] != values[1] and values[2] == values[3]
    _require(
        not unread or int(scores.truncated_tokens[3]) > 0,
        f"the end of a text of {words:,} words is not read, but no token is counted as truncated",
    )


def check_source(source: Source, queries: Queries, openers: Openers = NO_OPENERS) -> None:
    """The queries asked for, the order of trec_eval, no more than the top, the same every time.

    The spec is plain JSON, and where all its kinds can be opened (by tamis or by the `openers` for
    kinds of one's own, see `tamis.registry.Opening`) the source that it opens gives the same run.
    """
    _require(len(queries) > 0, "a source is checked with one query at least")
    run = source(queries)
    _check_run(run)
    _require(run.queries == queries, "the run's queries are not those that were asked")
    _require(source(queries) == run, "searching twice gives different runs")
    for top in (1, 3):
        top_run = source.search(queries, top)
        _check_run(top_run)
        _require(
            top_run.queries == queries, f"queries are lost or changed when the top {top} is asked"
        )
        _require(bool((top_run.sizes() <= top).all()), f"more than the top {top} comes back")
    first_query = queries.select(np.arange(1))
    alone, among = source(first_query), run.select(first_query.ids)
    _require(
        len(alone.score) == len(among.score) and _near(alone.score, among.score),
        "a query alone finds something else than among others",
    )
    _require(len(source(queries.select(np.arange(0)))) == 0, "no queries give a run of some")
    _check_spec(source.spec(), source.spec())
    reopened = _reopened(source.spec(), Opening(openers=openers).source)
    if reopened is not None:
        _require(reopened(queries) == run, "the source that the spec opens gives another run")
        _require(
            reopened.spec() == source.spec(), "the source that the spec opens has another spec"
        )


def check_stage(stage: Stage, run: Run, openers: Openers = NO_OPENERS) -> None:
    """The same queries, documents only from the run it is given, which it does not change.

    The spec is checked as that of a source is.
    """
    _check_run(run)
    before = _copied(run)
    result = stage(run)
    _require(run == before, "the stage changes the run it is given")
    _check_run(result)
    _require(result.queries == run.queries, "the queries are not those of the run it is given")
    for query in run:
        strangers = set(result[query].ids) - set(run[query].ids)
        _require(not strangers, f"query {query!r} gets documents it had not: {sorted(strangers)}")
    _require(stage(run) == result, "the same run gives different results")
    nothing = run.select(Ids.of([]))
    _require(len(stage(nothing)) == 0, "a run of no queries gives one of some")
    _check_spec(stage.spec(), stage.spec())
    reopened = _reopened(stage.spec(), Opening(openers=openers).stage)
    if reopened is not None:
        _require(reopened(run) == result, "the stage that the spec opens gives another run")
        _require(reopened.spec() == stage.spec(), "the stage that the spec opens has another spec")


def _copied(run: Run) -> Run:
    return Run._unchecked(
        run.queries,
        run.docs,
        run.offsets.copy(),
        run.doc.copy(),
        run.score.copy(),
        {name: column.copy() for name, column in run.extra.items()},
    )


def _check_run(run: Run) -> None:
    """Whole columns, numbers for scores, no document twice, and the order of trec_eval."""
    _require(isinstance(run, Run), f"what comes back is a {type(run).__name__}, not a run")
    try:
        ordered = Run(run.queries, run.docs, run.offsets, run.doc, run.score, run.extra)
    except TamisError as error:
        raise AssertionError(f"the run is not whole: {error}") from error
    _require(
        np.array_equal(ordered.doc, run.doc),
        "documents are not ordered by score, and equal scores by id descending",
    )


def _reopened(spec: Spec, open_spec: Callable[[Spec], SourceOrStage]) -> SourceOrStage | None:
    """What a spec opens as it is read back from JSON; None where nothing opens one of its kinds."""
    try:
        return open_spec(json.loads(json.dumps(spec)))
    except UnknownKindError:
        return None
    except TamisError as error:
        raise AssertionError(f"the spec cannot be opened: {error}") from error


def _check_spec(spec: Spec, again: Spec) -> None:
    try:
        text = json.dumps(spec, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise AssertionError(f"the spec is not plain JSON: {error}") from error
    _require(json.loads(text) == spec, "the spec changes when it is written as JSON and read back")
    _require(spec == again, "the spec is not the same when asked for twice")
