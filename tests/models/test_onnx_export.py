"""Exports are compared with the model, noted, and refused where they rank otherwise."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tamis.cores import processor
from tamis.errors import InputError, OutputError
from tamis.models import (
    Sample,
    Tolerance,
    describe_model,
    export,
    import_model,
    open_model,
    open_scorer,
)
from tamis.models.export_sample import ScoredSample, pydocs_sample
from tamis.models.onnx_export import Export, compare, reason_to_refuse
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
    import_model(plain, tmp_path / "model")
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


ANYTHING = Tolerance(overlap=0, drop=1)
PAIRS = Pairs(["a b"], ["c d e", "f"], np.array([[0, 0], [0, 1]], np.int32))


def test_an_export_is_written_compared_and_noted(model: Path, tmp_path: Path) -> None:
    told: list[str] = []
    found = export(model, tmp_path / "out", sample(), log=told.append)
    assert (found[0].backend, found[0].refused, found[0].queries) == ("onnx", "", 3)
    assert found[0].difference < 1e-4
    assert found[0].overlap == 1
    assert found[0].processor == processor()
    assert found[0].before == found[0].after
    assert found[-1].backend == "onnx-int8"
    assert len(told) == 1 + len(found) == 3
    note = open_model(tmp_path / "out")
    assert note.base == open_model(model).base
    kept = json.loads((tmp_path / "out" / "tamis.json").read_text())["exports"]
    assert kept["measured"] == {
        "on": "three", "queries": 3, "documents": 36, "measure": "nDCG@10",
    }  # fmt: skip
    assert kept["onnx"]["difference"] == pytest.approx(found[0].difference, rel=1e-3)
    words = dict(describe_model(note))
    assert words["onnx"].startswith("scores differ by ")
    assert words["onnx"].endswith(f"; on three, 3 queries; {processor()}")
    expected = open_scorer(model).score(PAIRS).values
    exact = open_scorer(tmp_path / "out", backend="onnx").score(PAIRS).values
    assert np.abs(exact - expected).max() < 1e-4


def test_what_is_reported_of_int8_is_what_its_scores_are(model: Path, tmp_path: Path) -> None:
    given = sample()
    found = export(model, tmp_path / "out", given, tolerance=ANYTHING)[-1]
    assert (found.backend, found.refused) == ("onnx-int8", "")
    texts = [each.text for each in given.documents]  # type: ignore[union-attr]
    queries = tuple(query.text for query in given.run.queries)
    every = Pairs(queries, texts, np.indices((3, 12), np.int32).reshape(2, -1).T.copy())
    sides = [
        open_scorer(tmp_path / "out", backend=backend).score(every).values.reshape(3, 12)
        for backend in ("fast", "onnx-int8")
    ]
    assert found.difference == pytest.approx(float(np.abs(sides[0] - sides[1]).max()), rel=1e-3)
    first, second = (np.argsort(-side, axis=1)[:, :10] for side in sides)
    shared = [len(set(a) & set(b)) / 10 for a, b in zip(first, second, strict=True)]
    assert found.overlap == pytest.approx(np.mean(shared))
    noted = open_model(tmp_path / "out").facts["exports"]["onnx-int8"]
    assert noted["processor"] == processor()
    assert noted["overlap"] == pytest.approx(found.overlap, abs=1e-3)


def test_int8_that_ranks_otherwise_is_refused(model: Path, tmp_path: Path) -> None:
    never = Tolerance(overlap=1.01)
    found = export(model, tmp_path / "out", sample(), tolerance=never)
    assert [each.backend for each in found] == ["onnx", "onnx-int8"]
    assert found[1].refused.startswith("shares ")
    assert sorted(path.name for path in (tmp_path / "out" / "onnx").iterdir()) == ["model.onnx"]
    assert "onnx-int8" not in open_model(tmp_path / "out").facts["exports"]
    with pytest.raises(
        OutputError, match=r"the 8-bit export shares .* sample of 3 queries"
    ) as caught:
        export(model, tmp_path / "other", sample(), int8=True, tolerance=never)
    assert "--min-overlap" in caught.value.hint
    assert not (tmp_path / "other").exists()
    assert len(export(model, tmp_path / "other", sample(), int8=False, tolerance=never)) == 1


def test_the_overlap_of_hand_made_scores() -> None:
    names = [f"d{n:02}" for n in range(12)]
    scores = {name: 12.0 - n for n, name in enumerate(names)}
    swapped = scores | {"d09": scores["d11"], "d11": scores["d09"]}  # one of ten leaves
    few = {"d00": 2.0, "d01": 1.0}
    turned = {"d00": 1.0, "d01": 2.0}  # of two documents nothing can be told

    def scored(first: dict[str, float], second: dict[str, float], value: float) -> ScoredSample:
        run = Run.from_dict({"a": first, "b": scores, "few": second})
        return ScoredSample(run, run.score, value, 1.0)

    model, other = scored(scores, few, 0.6), scored(swapped, turned, 0.594)
    assert model.overlap(other) == pytest.approx((9 / 10 + 10 / 10) / 2)
    found = compare("onnx-int8", 1.0, model, other, Tolerance())
    assert found.refused.startswith("lowers the measure from 0.6000 to 0.5940")
    assert compare("onnx-int8", 1.0, model, other, Tolerance(drop=0.006)).refused == ""
    both = compare("onnx-int8", 1.0, model, other, Tolerance(overlap=0.96)).refused
    assert both == (
        "shares 0.950 of the top 10 with float (0.96 is needed) and lowers the measure from "
        "0.6000 to 0.5940 (by 0.005 at most is allowed), in a sample of 3 queries"
    )
    run = Run.from_dict({"few": few})
    short = ScoredSample(run, run.score, None, 1.0)
    assert short.overlap(short) is None


def test_a_float_export_that_differs_is_an_error(model: Path, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="the float export differs by"):
        export(model, tmp_path / "out", sample(), tolerance=Tolerance(difference=-1))
    assert not (tmp_path / "out").exists()


def test_an_output_is_replaced_only_when_asked(model: Path, tmp_path: Path) -> None:
    export(model, tmp_path / "out", sample(), int8=False)
    with pytest.raises(OutputError, match="exists already"):
        export(model, tmp_path / "out", sample(), int8=False)
    export(tmp_path / "out", tmp_path / "out", sample(), tolerance=ANYTHING, force=True)
    assert len(list((tmp_path / "out" / "onnx").iterdir())) == 2


def test_reasons_to_refuse() -> None:
    good = Export("onnx-int8", 1.0, 30, 5.0, 0.9, 0.6, 0.595, 2.0, "a processor")
    assert reason_to_refuse(good, Tolerance()) == ""
    assert "shares 0.899 of" in reason_to_refuse(replace(good, overlap=0.899), Tolerance())
    assert reason_to_refuse(replace(good, overlap=0.9 - 1e-16), Tolerance()) == ""
    worse = replace(good, after=0.5949)
    assert "from 0.6000 to 0.5949" in reason_to_refuse(worse, Tolerance())
    assert reason_to_refuse(replace(good, after=0.9), Tolerance()) == ""
    assert reason_to_refuse(replace(worse, before=None), Tolerance()) == ""
    assert "5 in a score" in reason_to_refuse(replace(good, backend="onnx"), Tolerance())


def test_models_that_cannot_be_exported(tmp_path: Path) -> None:
    config = transformers.GPT2Config(
        vocab_size=len(WORDS), n_embd=16, n_layer=1, n_head=2, n_positions=40
    )
    plain = save(tmp_path / "causal", transformers.GPT2LMHeadModel(config))
    import_model(plain, tmp_path / "a", words=["a", "b"], template="{query} {document}")
    with pytest.raises(InputError, match="is a causal language model"):
        export(tmp_path / "a", tmp_path / "out", sample())
    config = transformers.T5Config(
        vocab_size=len(WORDS), d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2,
        decoder_start_token_id=0,
    )  # fmt: skip
    plain = save(tmp_path / "t5", transformers.T5ForConditionalGeneration(config))
    words = {"words": ["a", "b"], "template": "{query} {document}"}
    import_model(plain, tmp_path / "b", score="vocabulary", **words)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="needs the logits of all words"):
        export(tmp_path / "b", tmp_path / "out", sample())


def test_samples_that_say_nothing(model: Path, tmp_path: Path) -> None:
    given = sample()
    few = replace(given, run=given.run.top(10))
    with pytest.raises(InputError, match="no query of the run has more than 10 documents"):
        export(model, tmp_path / "out", few)
    assert export(model, tmp_path / "few", few, int8=False)[0].overlap is None
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
    value = given.score_with(scorer).value
    assert replace(given, qrels=Qrels.from_dict(more)).score_with(scorer).value == value
    strangers = Qrels.from_dict({"other": {"d00": 1}})
    assert replace(given, qrels=strangers).score_with(scorer).value is None


@pytest.mark.parametrize("name", ["ce", "t5"])
def test_real_weights_in_both_back_ends(name: str, models: Path, tmp_path: Path) -> None:
    if not (models / name).is_dir():
        pytest.skip(f"TAMIS_MODELS has no {name!r}")
    words = {"words": ["true", "false"]} if name == "t5" else {}
    import_model(models / name, tmp_path / "model", **words)  # type: ignore[arg-type]
    given = pydocs_sample(questions=2, depth=12)
    found = export(tmp_path / "model", tmp_path / "out", given, tolerance=ANYTHING)
    assert found[0].difference < 1e-4
    assert found[1].overlap is not None
    assert found[1].overlap >= 0.9
