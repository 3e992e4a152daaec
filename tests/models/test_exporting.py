"""Exports are compared with the model, noted, and refused where they rank otherwise."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tamis.errors import InputError, OutputError
from tamis.models import (
    Sample,
    Tolerance,
    adopt,
    describe_model,
    export,
    exporting,
    open_model,
    open_scorer,
)
from tamis.models.export_sample import pydocs_sample
from tamis.models.exporting import Export, reason_to_refuse
from tamis.scorers._onnx import saturates
from tamis.types import Document, Pairs, Qrels, Queries, Query, Run

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
os.environ["HF_HUB_OFFLINE"] = "1"
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefghij"]


def save(folder: Path, model: Any) -> Path:
    numbers = {word: number for number, word in enumerate(WORDS)}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(numbers, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    model.save_pretrained(folder)
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="[PAD]", unk_token="[UNK]",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    ).save_pretrained(folder)  # fmt: skip
    return folder


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A tiny cross-encoder as a model folder."""
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(WORDS), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=24, max_position_embeddings=40, num_labels=1, initializer_range=0.5,
    )  # fmt: skip
    plain = save(tmp_path / "plain", transformers.BertForSequenceClassification(config))
    adopt(plain, tmp_path / "model")
    return tmp_path / "model"


def sample() -> Sample:
    """Three queries with the same twelve documents each; a third of them is relevant."""
    random = np.random.default_rng(4)
    documents = [Document(f"d{n:02}", " ".join(random.choice(WORDS[4:], 9))) for n in range(12)]
    queries = Queries.of([Query("q1", "a b"), Query("q2", "c"), Query("q3", "j i h")])
    names = [document.id for document in documents]
    run = Run.from_dict({q.id: {d: float(-n) for n, d in enumerate(names)} for q in queries})
    judged = {q.id: {d: int(n % 3 == 0) for n, d in enumerate(names)} for q in queries}
    return Sample(run.with_queries(queries), documents, Qrels.from_dict(judged), name="three")


PAIRS = Pairs(["a b"], ["c d e", "f"], np.array([[0, 0], [0, 1]], np.int32))


def test_an_export_is_written_compared_and_noted(model: Path, tmp_path: Path) -> None:
    told: list[str] = []
    found = export(model, tmp_path / "out", sample(), said=told.append)
    assert (found[0].backend, found[0].recipe, found[0].refused) == ("onnx", "float", "")
    assert found[0].difference < 1e-5
    assert found[0].tau == pytest.approx(1)
    assert found[0].least_tau == pytest.approx(1)
    assert found[0].before == found[0].after
    assert found[-1].backend == "onnx-int8"
    assert len(told) == 1 + len(found)
    note = open_model(tmp_path / "out")
    assert note.base == open_model(model).base
    kept = json.loads((tmp_path / "out" / "tamis.json").read_text())["exports"]
    assert kept["measured"] == {"on": "three", "documents": 36, "measure": "nDCG@10"}
    assert kept["onnx"]["difference"] == pytest.approx(found[0].difference, rel=1e-3)
    words = dict(describe_model(note))
    assert words["onnx"].startswith("tau 1.0000 (least 1.0000), scores differ by ")
    assert words["onnx"].endswith("; on three (float)")
    expected = open_scorer(model).score(PAIRS).values
    exact = open_scorer(tmp_path / "out", backend="onnx").score(PAIRS).values
    assert np.abs(exact - expected).max() < 1e-5


def test_what_is_reported_of_int8_is_what_its_scores_are(model: Path, tmp_path: Path) -> None:
    given = sample()
    found = export(model, tmp_path / "out", given, tolerance=Tolerance(tau=1, measure=1))[-1]
    assert (found.recipe, found.refused) == ("single", "")
    queries = tuple(query.text for query in given.run.queries)
    documents = {each.id: each.text for each in given.documents}  # type: ignore[union-attr]
    texts = list(documents.values())
    every = Pairs(queries, texts, np.indices((3, 12), np.int32).reshape(2, -1).T.copy())
    off = [
        open_scorer(tmp_path / "out", backend=backend).score(every).values
        for backend in ("torch", "onnx-int8")
    ]
    assert given.scored(open_scorer(model)).scores == pytest.approx(off[0], abs=1e-5)
    assert found.difference == pytest.approx(float(np.abs(off[0] - off[1]).max()), rel=1e-3)
    kendall = pytest.importorskip("scipy.stats").kendalltau
    taus = [kendall(*(side[n : n + 12] for side in off)).statistic for n in (0, 12, 24)]
    assert found.tau == pytest.approx(np.mean(taus))
    assert found.least_tau == pytest.approx(min(taus))


def test_int8_that_ranks_otherwise_is_refused(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting, "WIDE", 2 + saturates())  # weights of -1, 0 and 1
    found = export(model, tmp_path / "out", sample())
    assert [each.recipe for each in found] == ["float", "single", "mixed", "double"]
    assert all("has a tau of" in each.refused for each in found[1:])
    assert sorted(path.name for path in (tmp_path / "out" / "onnx").iterdir()) == ["model.onnx"]
    assert "onnx-int8" not in open_model(tmp_path / "out").facts["exports"]
    with pytest.raises(OutputError, match=r"keeps the ranking: single has a tau of .*; double"):
        export(model, tmp_path / "other", sample(), int8=True)
    assert not (tmp_path / "other").exists()
    assert len(export(model, tmp_path / "other", sample(), int8=False)) == 1


def test_a_float_export_that_differs_is_an_error(model: Path, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="the float export differs by"):
        export(model, tmp_path / "out", sample(), tolerance=Tolerance(difference=-1))
    assert not (tmp_path / "out").exists()


def test_an_output_is_replaced_only_when_asked(model: Path, tmp_path: Path) -> None:
    export(model, tmp_path / "out", sample(), int8=False)
    with pytest.raises(OutputError, match="exists already"):
        export(model, tmp_path / "out", sample(), int8=False)
    export(
        tmp_path / "out", tmp_path / "out", sample(), tolerance=Tolerance(1e-4, 1, 1), force=True
    )
    assert len(list((tmp_path / "out" / "onnx").iterdir())) == 2


def test_reasons_to_refuse() -> None:
    good = Export("onnx-int8", "single", 1.0, 5.0, 0.99, 0.98, 0.6, 0.605, 2.0, "")
    assert reason_to_refuse(good, Tolerance()) == ""
    assert "tau of 0.9799" in reason_to_refuse(replace(good, least_tau=0.9799), Tolerance())
    worse = replace(good, after=0.5949)
    assert reason_to_refuse(worse, Tolerance()).startswith("changes the measure by -0.0051")
    assert reason_to_refuse(replace(worse, before=None), Tolerance()) == ""
    assert reason_to_refuse(replace(good, least_tau=1 - 1e-16), Tolerance(tau=0)) == ""
    assert "5 in a score" in reason_to_refuse(replace(good, backend="onnx"), Tolerance())


def test_fewer_bits_where_sums_overflow(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    onnx = pytest.importorskip("onnx")
    monkeypatch.setattr(exporting, "saturates", lambda: True)
    export(model, tmp_path / "out", sample(), tolerance=Tolerance(tau=1, measure=1))
    written = onnx.load(tmp_path / "out" / "onnx" / "model_qint8.onnx")
    assert {each.key: each.value for each in written.metadata_props}["bits"] == "7"
    numbers = [
        onnx.numpy_helper.to_array(each)
        for each in written.graph.initializer
        if each.data_type == onnx.TensorProto.INT8
    ]
    assert numbers
    assert max(np.abs(each.astype(int)).max() for each in numbers) == 63


def test_models_that_cannot_be_exported(tmp_path: Path) -> None:
    config = transformers.GPT2Config(
        vocab_size=len(WORDS), n_embd=16, n_layer=1, n_head=2, n_positions=40
    )
    plain = save(tmp_path / "causal", transformers.GPT2LMHeadModel(config))
    adopt(plain, tmp_path / "a", words=["a", "b"], template="{query} {document}")
    with pytest.raises(InputError, match="is a causal language model"):
        export(tmp_path / "a", tmp_path / "out", sample())
    config = transformers.T5Config(
        vocab_size=len(WORDS), d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2,
        decoder_start_token_id=0,
    )  # fmt: skip
    plain = save(tmp_path / "t5", transformers.T5ForConditionalGeneration(config))
    words = {"words": ["a", "b"], "template": "{query} {document}"}
    adopt(plain, tmp_path / "b", score="vocabulary", **words)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="needs the logits of all words"):
        export(tmp_path / "b", tmp_path / "out", sample())


def test_samples_that_say_nothing(model: Path, tmp_path: Path) -> None:
    given = sample()
    with pytest.raises(InputError, match="no query of the run has two documents"):
        export(model, tmp_path / "out", replace(given, run=given.run.top(1)))
    without = replace(given, run=Run.from_dict(given.run.to_dict()))
    with pytest.raises(InputError, match="have no texts"):
        export(model, tmp_path / "out", without)


def test_a_sample_of_pythons_documentation() -> None:
    found = pydocs_sample(questions=3, depth=4)
    assert len(found.run) == 3
    assert found.run.sizes().max() == 4
    assert found.name == "tamis:pydocs"
    assert found.qrels is not None
    assert set(found.qrels.queries) == set(found.run)


def test_the_measure_is_that_of_the_queries_of_the_run(model: Path) -> None:
    given = sample()
    assert given.qrels is not None
    more = {query: given.qrels[query] for query in given.qrels}
    more |= {f"other{n}": {"d00": 1} for n in range(9)}
    scorer = open_scorer(model)
    value = given.scored(scorer).value
    assert replace(given, qrels=Qrels.from_dict(more)).scored(scorer).value == value
    strangers = Qrels.from_dict({"other": {"d00": 1}})
    assert replace(given, qrels=strangers).scored(scorer).value is None
