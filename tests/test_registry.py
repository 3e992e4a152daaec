"""Every source, stage and scorer of the package reopens from its spec and ranks the same."""

from __future__ import annotations

import importlib
import json
import pkgutil
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tamis
from tamis.collection.readers import open_collection
from tamis.collection.runs import read_spec, write_run
from tamis.collection.writers import write_collection
from tamis.errors import InputError, TamisError, UnknownKindError
from tamis.models import import_model, open_ranker, open_scorer
from tamis.pipeline.hybrid import Hybrid, hybrid, lexical_dense_hybrid
from tamis.pipeline.interpolation import Interpolate
from tamis.pipeline.rerank import Rerank, rerank
from tamis.rankers.features import FeatureSource
from tamis.rankers.lambdamart import LambdaMART
from tamis.rankers.logistic_regression import LogisticRegression
from tamis.rankers.neural_ranker import NeuralRanker, NeuralRankerSettings
from tamis.rankers.pacrr_drmm import PACRRDRMM, PACRRDRMMSettings
from tamis.rankers.term_texts import TermSource
from tamis.rankers.text_embeddings import TextEmbedder
from tamis.registry import OPENERS, Opening, open_source, open_stage, relative_spec, spec_of
from tamis.scorers.bi_encoder import BiEncoder
from tamis.scorers.cross_encoder import CrossEncoder
from tamis.scorers.lexical import Lexical
from tamis.scorers.target_words import TargetWords
from tamis.search import RM3, DenseSource, Index, QueryLikelihood
from tamis.search.sources import IndexSource
from tamis.testing import check_source, check_stage
from tamis.types import Document, Pairs, Qrels, Queries, Query, Run, Scores, Source, Spec, Stage
from tamis.types.pipeline import Chain, Scale, Then, Top, TopOfSource

TEXTS = {
    "tamis": "a drum sieve. sort the flour. the grain. a net.",
    "net": "a net sort the fish. the grain.",
    "drum": "the drum. a drum. sort grain.",
    "flour": "flour the sieve. fish.",
    "both": "sieve sieve the net grain flour.",
}
DOCUMENTS = [Document(name, text) for name, text in TEXTS.items()]
QUERIES = Queries.of([Query("q1", "drum sieve"), Query("q2", "sort fish net")])
FOUND = {
    "q1": {"tamis": 3.0, "drum": 2.5, "both": 1.0, "flour": 0.5, "net": 0.25},
    "q2": {"net": 9.0, "tamis": 2.0, "both": 2.0},
}
RUN = (
    Run.from_dict(FOUND)
    .with_queries(QUERIES)
    .with_extra(lexical_score=np.arange(8, dtype=np.float32))
)
Make = Callable[[Path], Any]


@pytest.fixture(scope="module")
def folder(tiny_cross_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index with embeddings, models, word vectors and a collection, all in one folder."""
    base = tmp_path_factory.mktemp("specs")
    import_model(tiny_cross_encoder, base / "cross-encoder")
    import_model(tiny_cross_encoder, base / "bi-encoder", kind="bi-encoder", pooling="mean")
    shutil.copytree(tiny_cross_encoder, base / "plain")
    index = Index.build(DOCUMENTS, base / "index")
    index.encode(open_scorer(base / "bi-encoder"), passages="sentences:2:1")  # type: ignore[arg-type]
    lines = [f"{word} {n}.5 {7 - n} 1\n" for n, word in enumerate(("sieve", "net", "drum", "fish"))]
    (base / "vectors.txt").write_text("".join(lines))
    rows = [json.dumps({"name": doc.id, "body": doc.text}) + "\n" for doc in DOCUMENTS]
    (base / "docs.jsonl").write_text("".join(rows))
    plain = [json.dumps({"id": doc.id, "text": doc.text}) + "\n" for doc in DOCUMENTS]
    (base / "plain.jsonl").write_text("".join(plain))
    write_collection(open_collection(base / "plain.jsonl"), base / "store", "collection")
    return base


def index_in(folder: Path) -> Index:
    return Index.open(folder / "index")


def dense(folder: Path) -> DenseSource:
    return index_in(folder).dense(open_scorer(folder / "bi-encoder"))  # type: ignore[arg-type]


def lexical(folder: Path, **settings: Any) -> Rerank:
    return rerank(Lexical(index_in(folder)), index_in(folder), **settings)


JUDGED = Qrels.from_dict({"q1": {"tamis": 1}, "q2": {"net": 1}})


def features(folder: Path) -> FeatureSource:
    embedder = TextEmbedder.read(folder / "vectors.txt")
    return FeatureSource(embedder, index_in(folder), ("lexical_score",))


def lambdamart(folder: Path) -> LambdaMART:
    pytest.importorskip("xgboost", reason="the extra rankers is not installed")
    ranker = LambdaMART.fit(RUN, JUDGED, features(folder))
    return ranker.save(folder / "lambdamart", force=True)


def neural_ranker(folder: Path) -> NeuralRanker:
    pytest.importorskip("torch", reason="the extra neural is not installed")
    (folder / "four.txt").write_text("sieve 1 0 0 1\nnet 0 1 0 1\ndrum 0 0 1 1\nfish 1 1 0 0\n")
    source = FeatureSource(TextEmbedder.read(folder / "four.txt"), index_in(folder), ("score",))
    settings = NeuralRankerSettings(epochs=1, heads=2, list_size=3)
    ranker = NeuralRanker.fit(RUN, JUDGED, source, settings)
    return ranker.save(folder / "neural-ranker", force=True)


def pacrr_drmm(folder: Path) -> PACRRDRMM:
    pytest.importorskip("torch", reason="the extra neural is not installed")
    texts = TermSource.read(folder / "vectors.txt", index_in(folder))
    settings = PACRRDRMMSettings(epochs=1, max_query_terms=4, max_document_terms=9)
    return PACRRDRMM.fit(RUN, JUDGED, texts, settings).save(folder / "pacrr-drmm", force=True)


def columns() -> Any:
    from tamis.collection._records import Columns

    return Columns(id="name", text="body")


SOURCES: list[tuple[type[Source], Make]] = [
    (IndexSource, lambda folder: index_in(folder).bm25(k1=1.1, b=0.7)),
    (IndexSource, lambda folder: index_in(folder).ql(mu=17).rm3(3, 2, 0.3)),
    (DenseSource, dense),
    (Hybrid, lambda folder: hybrid(index_in(folder).bm25(), dense(folder), k=5, depth=3)),
    (
        Hybrid,
        lambda folder: hybrid(
            index_in(folder).bm25(), index_in(folder).ql(), method="sum", weights=[0.3, 0.6],
            normalisation="z",
        ),
    ),
    (Hybrid, lambda folder: lexical_dense_hybrid(index_in(folder).bm25(), dense(folder), 0.7)),
    (TopOfSource, lambda folder: index_in(folder).bm25() % 2),
    (Then, lambda folder: index_in(folder).bm25() % 3 >> lexical(folder, depth=2) % 2),
    (
        Then,
        lambda folder: lexical_dense_hybrid(index_in(folder).bm25(), dense(folder))
        >> rerank(
            open_scorer(folder / "cross-encoder"), index_in(folder), interpolate=0.25,
            fuse_with_column="lexical_score", missing="skip",
        ),
    ),
]  # fmt: skip
STAGES: list[tuple[type[Stage], Make]] = [
    (Top, lambda folder: Top(2)),
    (Chain, lambda folder: Top(4) >> lexical(folder)),
    (Interpolate, lambda folder: Interpolate(lexical(folder, depth=3), 0.25)),
    (Interpolate, lambda folder: Interpolate(lexical(folder), 0.75, "previous_score")),
    (Rerank, lambda folder: lexical(folder, passages="words:3:2:2", seed=5, aggregate="top:2")),
    (
        Rerank,
        lambda folder: rerank(
            Lexical(index_in(folder), QueryLikelihood(30)), index_in(folder), interpolate=0.3
        ),
    ),
    (
        Rerank,
        lambda folder: rerank(
            open_scorer(folder / "cross-encoder"), index_in(folder), depth=2, missing="skip",
            passages="sentences:2:1", aggregate="mean", model="my model",
        ),
    ),
    (
        Rerank,
        lambda folder: rerank(
            CrossEncoder.open(folder / "plain", max_length=9, scale="logit"), index_in(folder),
            aggregate="bert-3s:0.123456789:0.5:1",
        ),
    ),
    (
        Rerank,
        lambda folder: rerank(
            BiEncoder.open(folder / "plain", pooling="cls"),
            open_collection(folder / "docs.jsonl", columns=columns()),
        ),
    ),
    (
        Rerank,
        lambda folder: rerank(
            open_ranker(
                f"alignment:{folder}/vectors.txt", documents=open_collection(folder / "store")
            ).scorer,
            open_collection(folder / "store").documents,
        ),
    ),
    (
        LogisticRegression,
        lambda folder: LogisticRegression.fit(RUN, JUDGED, features(folder)).save(
            folder / "logistic-regression", force=True
        ),
    ),
    (LambdaMART, lambdamart),
    (NeuralRanker, neural_ranker),
    (PACRRDRMM, pacrr_drmm),
]  # fmt: skip


def names(cases: list[tuple[type, Make]]) -> list[str]:
    return [f"{kind.__name__}-{number}" for number, (kind, _) in enumerate(cases)]


def subclasses(kind: type) -> set[type]:
    """All classes of the package below a class, whichever module they are in."""
    for module in pkgutil.walk_packages(tamis.__path__, "tamis."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    direct: set[type] = set(kind.__subclasses__())
    every = direct.union(*(subclasses(one) for one in direct))
    return {one for one in every if one.__module__.startswith("tamis.")}


@pytest.mark.parametrize(("role", "cases"), [(Source, SOURCES), (Stage, STAGES)])
def test_every_class_has_a_round_trip(role: type, cases: list[tuple[type, Make]]) -> None:
    pytest.importorskip("torch", reason="every module is imported to find its classes")
    assert subclasses(role) == {kind for kind, _ in cases}


@pytest.mark.parametrize(("kind", "make"), SOURCES, ids=names(SOURCES))
def test_a_source_reopens(kind: type[Source], make: Make, folder: Path) -> None:
    source: Source = make(folder)
    assert type(source) is kind
    spec = source.spec()
    expected = source(QUERIES)
    assert expected.sizes().max() > 1
    for written in (spec, json.loads(json.dumps(spec))):
        opened = open_source(written)
        assert type(opened) is kind
        assert opened(QUERIES) == expected
        assert opened.spec() == spec
    check_source(source, QUERIES)


@pytest.mark.parametrize(("kind", "make"), STAGES, ids=names(STAGES))
def test_a_stage_reopens(kind: type[Stage], make: Make, folder: Path) -> None:
    stage: Stage = make(folder)
    assert type(stage) is kind
    spec, expected = stage.spec(), stage(RUN)
    for written in (spec, json.loads(json.dumps(spec))):
        opened = open_stage(written)
        assert type(opened) is kind
        assert opened(RUN) == expected
        assert opened.spec() == spec
    check_stage(stage, RUN)


def test_target_words_reopen(folder: Path, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    shutil.copytree(folder / "plain", tmp_path / "t5")
    (tmp_path / "t5" / "model.safetensors").unlink()
    config = transformers.T5Config(
        vocab_size=13, d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=2,
        decoder_start_token_id=0, feed_forward_proj="gated-gelu",
    )  # fmt: skip
    transformers.T5ForConditionalGeneration(config).save_pretrained(tmp_path / "t5")
    scorer = TargetWords.open(tmp_path / "t5", (4, 5), max_length=20, score="logit")
    spec = spec_of("scorer", scorer)
    opened = Opening().scorer(json.loads(json.dumps(spec)))
    assert spec_of("scorer", opened) == spec
    pairs = Pairs(["a drum"], ["the net", "flour"], np.array([[0, 0], [0, 1]], np.int32))
    assert np.array_equal(opened.score(pairs).values, scorer.score(pairs).values)


def test_what_several_parts_name_is_opened_once(folder: Path) -> None:
    bi_encoder = open_scorer(folder / "bi-encoder")
    both = dense(folder) >> rerank(bi_encoder, index_in(folder))
    opened = open_source(both.spec())
    assert isinstance(opened, Then)
    assert isinstance(opened.source, DenseSource)
    assert isinstance(opened.stage, Rerank)
    assert opened.stage.documents is opened.source.index
    scorer: object = opened.stage.scorer
    assert scorer is opened.source.encoder


def test_a_folder_with_relative_paths_can_be_moved(folder: Path, tmp_path: Path) -> None:
    stage = rerank(open_scorer(folder / "cross-encoder"), index_in(folder))
    pipeline = lexical_dense_hybrid(index_in(folder).bm25(), dense(folder)) >> stage
    spec = relative_spec(pipeline.spec(), folder)
    assert str(folder) not in json.dumps(spec)
    moved = tmp_path / "moved"
    shutil.copytree(folder, moved)
    opened = open_source(spec, base=moved)
    assert opened(QUERIES) == pipeline(QUERIES)
    assert relative_spec(opened.spec(), moved) == spec
    assert str(moved) in json.dumps(opened.spec())
    with pytest.raises(InputError, match="relative") as caught:
        open_source(spec)
    assert "base" in caught.value.hint


def test_threads_are_handed_on(folder: Path) -> None:
    opened = open_source(index_in(folder).bm25().spec(), threads=1)
    assert isinstance(opened, IndexSource)
    assert opened.threads == 1


def test_what_was_found_by_a_name_is_opened_by_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = {"tiny-model": folder / "cross-encoder"}
    for module in ("model_lookup", "scorer_specs"):
        monkeypatch.setattr(f"tamis.models.{module}.find_base", place.__getitem__)
    spec = spec_of("scorer", open_ranker("tiny-model").scorer)
    assert spec["name"] == "tiny-model"
    assert str(folder) not in json.dumps(spec)
    assert spec_of("scorer", Opening().scorer(spec)) == spec


def test_all_settings_of_a_ranking_are_in_the_spec(folder: Path) -> None:
    index = index_in(folder)
    spec = replace(index.bm25(k1=1.5), feedback=RM3(4, 5, 0.75)).spec()
    assert spec["k1"] == 1.5
    assert spec["rm3"] == {"terms": 4, "documents": 5, "weight": 0.75}
    assert spec["index"]["analyzer"]["name"] == "english"
    both = lexical_dense_hybrid(index.bm25(), dense(folder)).spec()
    assert (both["column"], both["normalisation"]) == ("lexical_score", ["filled", "z"])
    assert both["of"][1]["passages"]["passages"] == "sentences:2:1"
    stage = rerank(CrossEncoder.open(folder / "plain", max_length=9), index, seed=3).spec()
    assert stage["scorer"]["settings"] == {"max_length": 9}
    assert len(stage["scorer"]["weights"]["model.safetensors"]) == 64


def without(spec: Spec, key: str) -> Spec:
    return {name: value for name, value in spec.items() if name != key}


def bm25_spec(folder: Path) -> Spec:
    return index_in(folder).bm25().spec()


WRONG_SOURCES: dict[str, Callable[[Spec], Any]] = {
    "not a source": lambda spec: {"stage": "top", "version": 1, "k": 3},
    "'posix:system'": lambda spec: {**spec, "source": "posix:system"},
    "the kind \\['index'\\]": lambda spec: {**spec, "source": ["index"]},
    "no kind": lambda spec: without(spec, "source"),
    "version 99": lambda spec: {**spec, "version": 99},
    "version None": lambda spec: without(spec, "version"),
    "no 'k1'": lambda spec: without(spec, "k1"),
    "no 'ranking'": lambda spec: without(spec, "ranking"),
    "no 'index'": lambda spec: without(spec, "index"),
    "'k2' that nothing reads": lambda spec: {**spec, "k2": 3},
    "'k1' in the spec .* '0.9'": lambda spec: {**spec, "k1": "0.9"},
    "'k1' in the spec .* True": lambda spec: {**spec, "k1": True},
    "k1 is -1": lambda spec: {**spec, "k1": -1},
    "is 'tf'": lambda spec: {**spec, "ranking": "tf"},
    "no 'weight'": lambda spec: {**spec, "rm3": {"terms": 1, "documents": 1}},
    "is not there": lambda spec: {**spec, "index": {**spec["index"], "path": "/not/there"}},
    "has the analyzer": lambda spec: {
        **spec,
        "index": {**spec["index"], "analyzer": {"name": "english", "version": "0"}},
    },
    "'index' in the spec": lambda spec: {**spec, "index": spec["index"]["path"]},
    "is 'bm25'": lambda spec: "bm25",
    "of a source is None": lambda spec: {
        "source": "hybrid", "version": 1, "method": "rrf", "k": 60, "depth": 9, "of": [spec, None],
    },
    "two sources": lambda spec: {
        "source": "hybrid", "version": 1, "method": "rrf", "k": 60, "depth": 9, "of": [spec],
    },
    "'median'": lambda spec: {
        "source": "hybrid", "version": 1, "method": "sum", "normalisation": ["median"], "depth": 9,
        "of": [spec, spec],
    },
    "'weights' in the spec": lambda spec: {
        "source": "hybrid", "version": 1, "method": "sum", "normalisation": "z", "depth": 9,
        "weights": ["1", 0], "of": [spec, spec],
    },
    "cannot keep the top 0": lambda spec: {"source": "top", "version": 1, "k": 0, "of": spec},
}  # fmt: skip


@pytest.mark.parametrize("problem", WRONG_SOURCES)
def test_a_wrong_spec_of_a_source_is_refused(problem: str, folder: Path) -> None:
    with pytest.raises(InputError, match=problem) as caught:
        open_source(WRONG_SOURCES[problem](bm25_spec(folder)))
    assert caught.value.hint


WRONG_STAGES: dict[str, Callable[[Spec], Any]] = {
    "no 'depth'": lambda spec: without(spec, "depth"),
    "'depth' in the spec": lambda spec: {**spec, "depth": 2.5},
    "'max_depth' that nothing reads": lambda spec: {**spec, "max_depth": 2},
    "missing in the spec": lambda spec: {**spec, "missing": "ignore"},
    "is not an aggregation": lambda spec: {**spec, "aggregate": "best"},
    "is not a way to split": lambda spec: {**spec, "passages": "words"},
    "tamis-rules 0": lambda spec: {**spec, "sentences": "tamis-rules 0"},
    "'os.system'": lambda spec: {**spec, "scorer": {"scorer": "os.system", "version": 1}},
    "back end": lambda spec: {**spec, "scorer": {**spec["scorer"], "backend": "cuda"}},
    "'pooling' that nothing reads": lambda spec: {
        **spec, "scorer": {**spec["scorer"], "settings": {"pooling": "cls"}},
    },
    "scale in the spec": lambda spec: {
        **spec, "scorer": {**spec["scorer"], "settings": {"scale": "percent"}},
    },
    "/not/there": lambda spec: {**spec, "scorer": {**spec["scorer"], "path": "/not/there"}},
    "weights of .* changed": lambda spec: {**spec, "scorer": {**spec["scorer"], "weights": {}}},
    "no 'documents'": lambda spec: without(spec, "documents"),
}  # fmt: skip


@pytest.mark.parametrize("problem", WRONG_STAGES)
def test_a_wrong_spec_of_a_stage_is_refused(problem: str, folder: Path) -> None:
    stage = rerank(
        open_scorer(folder / "cross-encoder"), index_in(folder), passages="sentences:2:1"
    )
    with pytest.raises(InputError, match=problem) as caught:
        open_stage(WRONG_STAGES[problem](stage.spec()))
    assert caught.value.hint


@pytest.mark.parametrize("name", ["cross-encoder", "plain"])
def test_changed_weights_are_refused(name: str, folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / name, tmp_path / name)
    spec = rerank(CrossEncoder.open(tmp_path / name), index_in(folder)).spec()
    open_stage(spec)
    file = tmp_path / name / "model.safetensors"
    changed = bytearray(file.read_bytes())
    changed[-2] ^= 1
    file.write_bytes(changed)
    with pytest.raises(InputError, match=r"weights of .* changed .*model\.safetensors") as caught:
        open_stage(spec)
    assert caught.value.hint


def test_changed_word_vectors_are_refused(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "vectors.txt"
    shutil.copy(folder / "vectors.txt", file)
    spec = spec_of("scorer", open_ranker(f"alignment:{file}", documents=index_in(folder)).scorer)
    Opening().scorer(spec)
    file.write_text(file.read_text().replace("sieve 0.5", "sieve 0.25"))
    with pytest.raises(InputError, match="changed"):
        Opening().scorer(spec)


def test_an_index_encoded_in_other_passages_is_refused(folder: Path, tmp_path: Path) -> None:
    index = Index.build(DOCUMENTS, tmp_path / "index")
    encoder: Any = open_scorer(folder / "bi-encoder")
    index.encode(encoder)
    spec = index.dense(encoder).spec()
    open_source(spec)
    index.encode(encoder, passages="sentences:1:1", force=True)
    with pytest.raises(InputError, match="passages"):
        open_source(spec)
    cross_encoder = spec_of("scorer", open_scorer(folder / "cross-encoder"))
    with pytest.raises(InputError, match="makes no embeddings"):
        open_source({**index.dense(encoder).spec(), "encoder": cross_encoder})


class Shortness:
    """A scorer that only exists here."""

    scale: Scale = "regression"

    def score(self, pairs: Pairs) -> Scores:
        lengths = np.array([len(text) for text in pairs.texts], np.float32)
        return Scores(-lengths[pairs.index[:, 1]], np.zeros(len(pairs), np.int32))


def test_what_was_made_in_python_says_that_it_cannot_be_reopened(folder: Path) -> None:
    for stage, role in (
        (rerank(Shortness(), index_in(folder)), "scorer"),
        (rerank(Lexical(index_in(folder)), DOCUMENTS), "documents"),
    ):
        check_stage(stage, RUN)
        with pytest.raises(UnknownKindError, match=f"this {role} was made in Python") as caught:
            open_stage(stage.spec())
        assert caught.value.hint


class Fixed(Source):
    """A source of one's own, whose kind tamis does not know."""

    def __init__(self, bonus: float) -> None:
        self.bonus = bonus

    def search(self, queries: Queries, top: int) -> Run:
        found = {
            name: {doc: v + self.bonus for doc, v in row.items()} for name, row in FOUND.items()
        }
        return Run.from_dict(found).select(queries.ids).with_queries(queries).top(top)

    def spec(self) -> Spec:
        return {"source": "fixed", "version": 1, "bonus": self.bonus}


def test_a_kind_of_ones_own_is_opened_by_an_opener_that_is_handed_in() -> None:
    pipeline = Fixed(0.5) % 2 >> Top(1)
    openers = {"source": {"fixed": lambda values, opening: Fixed(**values)}}
    opened = open_source(pipeline.spec(), openers=openers)
    assert opened(QUERIES) == pipeline(QUERIES)
    check_source(pipeline, QUERIES, openers)
    check_source(pipeline, QUERIES)
    with pytest.raises(UnknownKindError, match="'fixed'"):
        open_source(pipeline.spec())
    assert "fixed" not in OPENERS["source"]


def test_the_contract_finds_a_spec_that_opens_something_else() -> None:
    wrong = {"source": {"fixed": lambda values, opening: Fixed(values["bonus"] + 1)}}
    with pytest.raises(AssertionError, match="another run"):
        check_source(Fixed(0.5), QUERIES, wrong)

    class MissingInformation(Top):
        def spec(self) -> Spec:
            return {"stage": "top", "version": 1, "k": 2}

    with pytest.raises(AssertionError, match="another run"):
        check_stage(MissingInformation(1), RUN)

    class Extra(Top):
        def spec(self) -> Spec:
            return {**super().spec(), "seed": 1}

    with pytest.raises(AssertionError, match="cannot be opened"):
        check_stage(Extra(1), RUN)


def test_every_opener_of_the_table_is_there() -> None:
    for kinds in OPENERS.values():
        for place in kinds.values():
            module, _, name = place.partition(":")
            assert callable(getattr(importlib.import_module(module), name))


def test_a_run_file_keeps_its_spec_and_an_old_one_is_shown(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from tamis.cli.app import run

    stage = lexical(folder, depth=2)
    done = stage.rerank(RUN)
    write_run(done.run, tmp_path / "new.parquet", spec=done.spec)
    spec = read_spec(tmp_path / "new.parquet")
    assert spec is not None
    assert open_stage(spec)(RUN) == done.run
    old = {"stage": "rerank", "model": "my-model", "passages": "whole", "depth": 2}
    write_run(done.run, tmp_path / "old.parquet", spec=old)
    for name, model in (("new", "Lexical"), ("old", "my-model")):
        assert run(["info", str(tmp_path / f"{name}.parquet")]) == 0
        assert model in capsys.readouterr().out
    with pytest.raises(TamisError, match="version None"):
        open_stage(old)
