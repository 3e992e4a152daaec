"""What a hit of a sieve says: its passage, its fields, and a score that means the same always."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import tamis
from tamis.cli.app import run as tamis_command
from tamis.fitting.lexical_scores import lexical_part, with_own_lexical_scores
from tamis.fitting.score_scale import ScoreScale, score_scale
from tamis.fitting.sieve import Sieve
from tamis.models import import_model
from tamis.pipeline.interpolation import Interpolate
from tamis.pipeline.rerank import Rerank
from tamis.types import Document, Run

pytest.importorskip("torch", reason="torch is not installed")
WORDS = "sieve drum net grain flour fish sort".split()


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, tiny_cross_encoder: Path) -> Path:
    out = tmp_path_factory.mktemp("base") / "tiny"
    import_model(tiny_cross_encoder, out, kind="bi-encoder", pooling="mean", max_length=24)
    return out


def documents() -> list[Document]:
    pairs = [(one, other) for one in WORDS for other in WORDS if one != other]
    return [
        Document(f"d{n:02}", f"a {one} the {other}. " * (1 + 29 * (n % 7 == 0)), "", {"n": f"{n}"})
        for n, (one, other) in enumerate(pairs)
    ]


@pytest.fixture(scope="module")
def sieve(tmp_path_factory: pytest.TempPathFactory, base: Path) -> Sieve:
    """Without judgements: BM25 and embeddings fused."""
    return tamis.fit(documents(), out=tmp_path_factory.mktemp("s") / "s", base=str(base), threads=1)


def test_a_score_does_not_depend_on_what_else_is_found(sieve: Sieve) -> None:
    assert isinstance(sieve.stage, Interpolate)
    run = sieve.source.search(tamis.Queries.of([tamis.Query("q", "drum net")]), 40)
    all_scores = dict(zip(run["q"].ids, sieve.scores(run).tolist(), strict=True))
    half = run["q"].ids[::2]
    numbers = np.flatnonzero([name in half for name in run["q"].ids])
    columns = {name: column[numbers] for name, column in run.extra.items()}
    some = Run(
        run.queries, run.docs, np.array([0, len(numbers)]), run.doc[numbers],
        run.score[numbers], columns,
    )  # fmt: skip
    expected = [all_scores[name] for name in some["q"].ids]
    assert sieve.scores(some).tolist() == pytest.approx(expected, rel=1e-12)


def test_a_score_is_the_same_with_a_filter_and_without(sieve: Sieve) -> None:
    alone = {hit.id: hit.score for hit in sieve.search("drum net", 50)}
    assert len(alone) == 42
    for number in (3, 20, 41):
        [hit] = sieve.search("drum net", 5, f"n={number}")
        assert hit.score == pytest.approx(alone[hit.id], rel=1e-12)


@pytest.fixture(scope="module")
def long_list(tmp_path_factory: pytest.TempPathFactory, base: Path) -> Sieve:
    """Words find 60 documents of 72, and 10 of those with a price of 0."""
    texts = [f"a sieve of kind {n}" if n % 6 else f"a net for fish {n}" for n in range(72)]
    documents = [
        Document(f"d{n:02}", text, "", {"price": f"{int(n >= 12)}"}) for n, text in enumerate(texts)
    ]
    out = tmp_path_factory.mktemp("long") / "s"
    return tamis.fit(documents, out=out, base=str(base), threads=1)


def test_what_words_did_not_find_has_the_same_score_under_a_filter(long_list: Sieve) -> None:
    """A long list by words fills up with its lowest score, a short one with zero."""
    alone = {hit.id: hit.score for hit in long_list.search("sieve", 72)}
    hits = long_list.search("sieve", 72, "price=0")
    assert {"d00", "d06"} < {hit.id for hit in hits} and len(hits) == 12
    for hit in hits:
        assert hit.score == pytest.approx(alone[hit.id], rel=1e-6)


def test_a_filled_lexical_score_becomes_that_of_the_document(long_list: Sieve) -> None:
    words = lexical_part(long_list.retriever)
    queries = tamis.Queries.of([tamis.Query("q", "fish kind")])
    assert words is not None
    scores = dict(words.search(queries, 72)["q"])
    listed, *_, other = scores
    run = Run.from_dict({"q": {listed: 0.9, other: 0.5, "d12": 0.4, "gone": 0.1}})
    filled = [scores[listed], 0.01, 0.01, 0.01]
    run = Run(queries, *(getattr(run, name) for name in ("docs", "offsets", "doc", "score")))
    own = with_own_lexical_scores(run.with_extra(lexical_score=np.array(filled, "f4")), words)
    expected = [scores[listed], scores[other], scores["d12"], 0.0]
    assert own.extra["lexical_score"].tolist() == pytest.approx(expected, rel=1e-6)
    assert with_own_lexical_scores(run, words) is run


def test_hits_without_judgements(sieve: Sieve) -> None:
    hits = sieve.search("drum net", top=5)
    assert [hit.rank for hit in hits] == [1, 2, 3, 4, 5]
    assert [hit.raw_score for hit in hits] == sorted((h.raw_score for h in hits), reverse=True)
    for hit in hits:
        assert 0 < hit.score < 1 and not hit.calibrated and hit.probability is None
        assert hit.text[hit.start : hit.end] == hit.passage
        assert hit.fields == {"n": f"{int(hit.id[1:])}"}
    scale = sieve.pipeline.score_scale
    assert scale is not None and scale.function == "logistic" and scale.queries > 0
    assert len(scale.weights) == 2 and sum(scale.weights) == pytest.approx(1)


def test_the_command_prints_what_python_gives(
    sieve: Sieve, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tamis_command(["search", str(sieve.path), "drum net", "--top", "2", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["hits"]
    for row, hit in zip(told, sieve.search("drum net", top=2), strict=True):
        assert row["score"] == pytest.approx(hit.score, abs=1e-6)
        assert (row["passage"], row["start"], row["end"]) == (hit.passage, hit.start, hit.end)
        assert (row["fields"], row["calibrated"]) == (hit.fields, False)
        assert "text" not in row
    assert tamis_command(["search", str(sieve.path), "drum net", "--top", "1"]) == 0
    assert "n: " in capsys.readouterr().out


def test_a_model_alone_keeps_its_own_scale(sieve: Sieve) -> None:
    stage = sieve.stage
    assert isinstance(stage, Interpolate) and isinstance(stage.stage, Rerank)
    run = Run.from_dict({"q": {"a": 0.5, "b": -1.0}})
    scale = score_scale(sieve.retriever, stage.stage, run, True)
    assert scale.function == "cosine"
    assert scale.scores(run, True).tolist() == [0.75, 0.0]


def test_what_the_model_did_not_score_gets_its_lowest_score() -> None:
    scale = ScoreScale("cosine", (1.0,), (0.0,), (1.0,), -1.0, 0)
    run = Run.from_dict({"q": {"a": 0.5, "b": 0.4}}).with_extra(
        passage=np.array([0, -1], np.int32), previous_score=np.zeros(2, np.float32)
    )
    assert scale.scores(run, True).tolist() == [0.75, 0.0]


def test_nothing_found_gives_a_scale_all_the_same(sieve: Sieve) -> None:
    empty = sieve.source.search(tamis.Queries.of([]), 10)
    scale = score_scale(sieve.retriever, sieve.stage, empty, True)
    assert np.isfinite(scale.scores(empty, True)).all() and scale.scale[0] == 1.0
