"""Exported models score as transformers does, in float; in 8-bit integers as numpy would."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tamis.errors import InputError
from tamis.models import ModelNote, adopt, open_model, open_scorer
from tamis.models.exporting import write_onnx
from tamis.models.onnx_graph import Graph
from tamis.models.onnx_int8 import BELOW, FINE, RECIPES, Int8, Matrix, Recipe, quantise
from tamis.scorers import _onnx
from tamis.scorers._onnx import FILES, Backend, saturates
from tamis.scorers.bi_encoder import BiEncoder
from tamis.scorers.cross_encoder import CrossEncoder
from tamis.scorers.target_words import TargetWords
from tamis.scorers.weights import read_config
from tamis.testing import check_scorer
from tamis.types import Pairs, Scorer

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
onnx = pytest.importorskip("onnx", reason="onnx is not installed")
runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
os.environ["HF_HUB_OFFLINE"] = "1"

WORDS = "a drum sieve is or net grain rivers flow to the sea and how does it work".split()
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "true", "false", "Query", "Document", "Relevant"]
QUERIES = ["how does a drum sieve work", "grain", ""]
TEXTS = ["a drum sieve is a net", "rivers flow " * 9, "", "grain or sea", "net"]
EVERY = Pairs(QUERIES, TEXTS, np.indices((3, 5), np.int32).reshape(2, -1).T.copy())
SHAPE = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4,
         "intermediate_size": 48, "max_position_embeddings": 66}  # fmt: skip
Make = Callable[[Path], Path]


def save(folder: Path, model: Any, segments: bool = True, noise: float = 0.3) -> Path:
    numbers = {word: number for number, word in enumerate([*SPECIAL, *WORDS])}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(numbers, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight), alpha=noise)
    model.save_pretrained(folder)
    names = ["input_ids", *(["token_type_ids"] if segments else []), "attention_mask"]
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="[PAD]", unk_token="[UNK]", model_input_names=names
    ).save_pretrained(folder)
    return folder


def bert(folder: Path, outputs: int = 1, activation: str = "gelu") -> Path:
    torch.manual_seed(1)
    config = transformers.BertConfig(
        vocab_size=len(SPECIAL + WORDS), num_labels=outputs, hidden_act=activation, **SHAPE
    )
    return save(folder, transformers.BertForSequenceClassification(config))


def roberta(folder: Path) -> Path:
    torch.manual_seed(2)
    config = transformers.RobertaConfig(
        vocab_size=len(SPECIAL + WORDS), num_labels=2, pad_token_id=0, type_vocab_size=1, **SHAPE
    )
    return save(folder, transformers.RobertaForSequenceClassification(config), segments=False)


def t5(folder: Path, feed: str = "gated-gelu", tied: bool = False, noise: float = 0.3) -> Path:
    torch.manual_seed(3)
    config = transformers.T5Config(
        vocab_size=len(SPECIAL + WORDS), d_model=32, d_kv=8, d_ff=48, num_layers=2,
        num_decoder_layers=3, num_heads=3, feed_forward_proj=feed, tie_word_embeddings=tied,
        decoder_start_token_id=0, relative_attention_max_distance=20,
        relative_attention_num_buckets=8,
    )  # fmt: skip
    return save(folder, transformers.T5ForConditionalGeneration(config), noise=noise)


def in_order(pairs: Pairs) -> tuple[list[str], list[str]]:
    index = pairs.index.tolist()
    return [pairs.queries[q] for q, _ in index], [pairs.texts[t] for _, t in index]


def exported(scorer: Scorer, folder: Path, int8: Int8 | None = None) -> Backend:
    """Write the export of an opened model into its folder; the back end that runs it."""
    backend: Backend = "onnx-int8" if int8 else "onnx"
    path = folder / FILES[backend]
    path.parent.mkdir(exist_ok=True)
    write_onnx(path, scorer, read_config(folder), int8)
    return backend


def scores_of_transformers(folder: Path, pairs: Pairs) -> NDArray[np.float32]:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    encoded = tokenizer(*in_order(pairs), padding=True, return_tensors="pt")
    with torch.inference_mode():
        logits = model(**encoded).logits
    found: NDArray[np.float32] = (
        logits[:, 0].numpy() if logits.shape[1] == 1 else logits.softmax(1)[:, 1].numpy()
    )
    return found


@pytest.mark.parametrize(
    "make",
    [
        bert,
        lambda folder: bert(folder, 2, "relu"),
        lambda folder: bert(folder, 1, "gelu_new"),
        lambda folder: bert(folder, 1, "silu"),
        roberta,
    ],
)
def test_a_cross_encoder_in_float_scores_as_transformers_does(make: Make, tmp_path: Path) -> None:
    folder = make(tmp_path)
    backend = exported(CrossEncoder.open(folder), folder)
    scorer = CrossEncoder.open(folder, backend=backend)
    expected = scores_of_transformers(folder, EVERY)
    assert np.ptp(expected) > 0.05
    assert np.abs(scorer.score(EVERY).values - expected).max() < 1e-5
    check_scorer(scorer)


def test_anyone_can_run_the_float_file(tmp_path: Path) -> None:
    folder = bert(tmp_path)
    exported(CrossEncoder.open(folder), folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    encoded = tokenizer(*in_order(EVERY), padding=True, return_tensors="np")
    session = runtime.InferenceSession(str(folder / "onnx/model.onnx"))
    assert {given.name for given in session.get_inputs()} == set(encoded)
    logits = session.run(["logits"], dict(encoded))[0]
    assert np.abs(logits[:, 0] - scores_of_transformers(folder, EVERY)).max() < 1e-5


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_a_bi_encoder_in_float_has_the_vectors_of_transformers(
    pooling: Any, tmp_path: Path
) -> None:
    folder = bert(tmp_path)
    backend = exported(BiEncoder.open(folder, pooling=pooling), folder)
    scorer = BiEncoder.open(folder, pooling=pooling, backend=backend)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder, add_pooling_layer=False).eval()
    for text, vector in zip(TEXTS, scorer.encode(TEXTS), strict=True):
        with torch.inference_mode():
            states = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].numpy()
        expected = states.mean(0) if pooling == "mean" else states[0]
        assert np.abs(vector - expected / np.linalg.norm(expected)).max() < 1e-5
    check_scorer(scorer)


@pytest.mark.parametrize(("feed", "tied"), [("gated-gelu", False), ("relu", True)])
def test_a_t5_in_float_scores_as_transformers_does(feed: str, tied: bool, tmp_path: Path) -> None:
    folder = t5(tmp_path, feed, tied)
    words = ["true", "false"]
    backend = exported(TargetWords.open(folder, words), folder)
    scorer = TargetWords.open(folder, words, backend=backend)
    values = scorer.score(EVERY).values
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    for query, text, value in zip(*in_order(EVERY), values, strict=True):
        prompt = f"Query: {query} Document: {text} Relevant:"
        encoded = tokenizer(prompt, return_tensors="pt")
        del encoded["token_type_ids"]
        with torch.inference_mode():
            logits = model(**encoded, decoder_input_ids=torch.tensor([[0]])).logits[0, 0]
        assert abs(logits[list(scorer.ids)].softmax(0)[0].item() - value) < 3e-5
    assert np.ptp(values) > 1e-3
    check_scorer(scorer)
    logit = TargetWords.open(folder, words, score="logit", backend=backend).score(EVERY).values
    expected = TargetWords.open(folder, words, score="logit").score(EVERY).values
    # Sums of float32 in another order: relative to the largest logit, whatever the processor.
    assert np.abs(logit - expected).max() < 2e-5 * np.abs(expected).max()


def test_other_words_than_the_exported_ones_are_refused(tmp_path: Path) -> None:
    folder = t5(tmp_path)
    backend = exported(TargetWords.open(folder, ["true", "false"]), folder)
    turned = TargetWords.open(folder, ["false", "true"], backend=backend).score(EVERY).values
    plain = TargetWords.open(folder, ["true", "false"], backend=backend).score(EVERY).values
    assert np.allclose(turned, 1 - plain, atol=1e-6)
    with pytest.raises(InputError, match="knows only the words"):
        TargetWords.open(folder, ["sea", "net"], backend=backend).score(EVERY)
    with pytest.raises(InputError, match="cannot cut texts at 513 tokens"):
        TargetWords.open(folder, ["true", "false"], max_length=513, backend=backend)


def ran(graph: Graph, value: str, states: NDArray[np.float32], path: Path) -> Any:
    """What a graph gives for these rows: they stand in its table of words, in order."""
    graph.save(path, ["input_ids"], (value, "found", ["n", "m"]), {})
    session = runtime.InferenceSession(str(path))
    return session.run(None, {"input_ids": np.arange(len(states))[None, :]})[0]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
@pytest.mark.parametrize("lowest", [None, -0.17])
@pytest.mark.parametrize("bits", [7, 8])
def test_a_product_of_whole_numbers_is_what_numpy_makes_of_it(
    recipe: Recipe, lowest: float | None, bits: int, tmp_path: Path
) -> None:
    if bits == 8 and saturates():
        pytest.skip("sums of 8-bit products overflow on this processor: 7 bits are used")
    random = np.random.default_rng(5)
    sizes = np.array([[1], [9], [1], [0], [3], [1]], np.float32)
    states = random.normal(size=(6, 20)).astype(np.float32) * sizes
    if lowest is not None:
        states = np.maximum(states, np.float32(lowest))
    weight = random.normal(size=(7, 20)).astype(np.float32)
    weight[3] = 0
    graph = Graph()
    rows = graph.rows(graph.op("Gather", graph.constant(states), "input_ids"), 20)
    matrix: Matrix = "narrow"
    found = ran(
        graph, Int8(recipe, bits).product(graph, rows, weight, matrix, lowest), states,
        tmp_path / "m.onnx",
    )  # fmt: skip
    if lowest is None:
        scale = np.maximum(np.abs(states).max(1, keepdims=True) / 127, 1e-12)
    else:
        scale = np.maximum(states.max(1, keepdims=True) / (255 - BELOW), -lowest / BELOW)
    near = np.round(states / scale) * scale
    if matrix in recipe.states:
        near = near + np.round((states - near) / (scale / FINE)) * (scale / FINE)
    whole = np.abs(weight).max(1, keepdims=True) / (2 ** (bits - 1) - 1) + 1e-30
    rounded = np.round(weight / whole) * whole
    if matrix in recipe.weights:
        left = weight - rounded
        step = np.abs(left).max(1, keepdims=True) / (2 ** (bits - 1) - 1) + 1e-30
        expected = near @ (rounded + np.round(left / step) * step).T
    else:
        expected = near @ rounded.T
    assert np.abs(found - expected).max() < (0.02 if recipe.weights else 1e-3)
    assert np.abs(found - states @ weight.T).max() < (0.03 if recipe.name == "double" else 1.5)


def test_whole_numbers_are_near_to_float(tmp_path: Path) -> None:
    def language_model(folder: Path, **more: Any) -> TargetWords:
        return TargetWords.open(folder, ["true", "false"], **more)

    opens: list[tuple[Make, Any]] = [
        (bert, CrossEncoder.open),
        (lambda folder: t5(folder, noise=0.05), language_model),
    ]
    for number, (make, scorer_of) in enumerate(opens):
        folder = make(tmp_path / str(number))
        model = scorer_of(folder)
        expected = model.score(EVERY).values
        for recipe in RECIPES:
            backend = exported(model, folder, Int8(recipe, 8 - saturates()))
            values = scorer_of(folder, backend=backend).score(EVERY).values
            off = float(np.sqrt(((values - expected) ** 2).mean()))
            assert 0 < off < (0.06 if saturates() else 0.03) * np.ptp(expected), recipe.name
        check_scorer(scorer_of(folder, backend=backend))


def test_padding_and_batches_leave_scores_alone(tmp_path: Path) -> None:
    folder = bert(tmp_path)
    backend = exported(CrossEncoder.open(folder), folder)
    scorer = CrossEncoder.open(folder, backend=backend)
    alone = replace(scorer, budget=1, threads=1).score(EVERY).values
    assert np.abs(replace(scorer, budget=10_000).score(EVERY).values - alone).max() < 1e-5


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model folder with a float export."""
    adopt(bert(tmp_path / "plain"), tmp_path / "model", max_length=40)
    exported(open_scorer(tmp_path / "model"), tmp_path / "model")
    return tmp_path / "model"


WITHOUT_TORCH = """
import sys
for name in ("torch", "transformers", "safetensors", "onnx"):
    sys.modules[name] = None
import numpy as np
from tamis.errors import MissingExtraError
from tamis.models import open_scorer
from tamis.types import Pairs
pairs = Pairs(["grain", "a drum sieve"], ["a net", "rivers flow to the sea " * 9],
              np.array([[0, 0], [0, 1], [1, 1]], np.int32))
scores = open_scorer(sys.argv[1]).score(pairs)
print(*scores.values.tolist(), *scores.cut.tolist())
try:
    open_scorer(sys.argv[1], backend="torch")
except MissingExtraError as error:
    print(error.hint)
"""


def test_scoring_from_an_export_needs_no_torch(model: Path) -> None:
    pairs = Pairs(["grain", "a drum sieve"], ["a net", "rivers flow to the sea " * 9],
                  np.array([[0, 0], [0, 1], [1, 1]], np.int32))  # fmt: skip
    expected = open_scorer(model, backend="torch").score(pairs)
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, str(model)], capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    numbers, hint = done.stdout.splitlines()
    found = [float(number) for number in numbers.split()]
    assert np.allclose(found[:3], expected.values, atol=1e-4)
    assert found[3:] == expected.cut.tolist()
    assert sum(found[3:]) > 0
    assert hint == "pip install 'tamis[neural]'"


def test_which_back_end_runs_a_folder(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def kind() -> str:
        scorer = open_scorer(model)
        assert isinstance(scorer, CrossEncoder)
        return type(scorer.model).__name__

    assert kind() == "TorchPairs"
    monkeypatch.setattr("tamis.models.folder.find_spec", lambda name: None)
    assert kind() == "OnnxPairs"
    monkeypatch.undo()
    (model / "model.safetensors").unlink()
    assert kind() == "OnnxPairs"
    assert isinstance(open_model(model), ModelNote)
    with pytest.raises(InputError, match="has no weights"):
        open_scorer(model, backend="torch")
    shutil.rmtree(model / "onnx")
    with pytest.raises(InputError, match="has no weights"):
        open_model(model)


def test_a_tokenizer_of_another_model_is_refused(model: Path, tmp_path: Path) -> None:
    path = model / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "vocab_size": 7}))
    with pytest.raises(InputError, match=r"the tokenizer has \d+ ids, the weights have 7 embed"):
        open_scorer(model, backend="onnx")


def test_what_cannot_be_run_is_named(model: Path) -> None:
    with pytest.raises(InputError, match=r"has no onnx/model_qint8\.onnx") as caught:
        open_scorer(model, backend="onnx-int8")
    assert caught.value.hint.startswith("tamis export")
    unknown: Any = "openvino"
    with pytest.raises(InputError, match="no back end 'openvino'"):
        open_scorer(model, backend=unknown)
    path = model / FILES["onnx"]
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="cannot be read"):
        open_scorer(model, backend="onnx")
    path.write_bytes(whole)
    with pytest.raises(InputError, match="not written by tamis for a bi-encoder"):
        _onnx.Session.open(model, "onnx", "bi-encoder")


def test_weights_of_eight_bits_are_refused_where_sums_overflow(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for bits in (7, 8):
        exported(open_scorer(model, backend="torch"), model, Int8(RECIPES[0], bits))
        for overflow in (False, True):
            monkeypatch.setattr(_onnx, "saturates", lambda overflow=overflow: overflow)
            if bits == 8 and overflow:
                with pytest.raises(InputError, match="sums overflow"):
                    open_scorer(model, backend="onnx-int8")
            else:
                open_scorer(model, backend="onnx-int8")


def test_the_probe_adds_two_products_that_do_not_fit_into_16_bits() -> None:
    probe = onnx.load_from_string(_onnx._PAIR_SUMS)
    onnx.checker.check_model(probe)
    assert [node.op_type for node in probe.graph.node] == ["MatMulInteger"]
    weights = onnx.numpy_helper.to_array(probe.graph.initializer[0])
    assert weights.dtype == np.int8
    assert weights.tolist() == [[127, 127], [127, 127]]
    assert isinstance(_onnx.saturates(), bool)


def test_weights_of_fewer_bits_are_rounded_to_fewer_values() -> None:
    weight = np.linspace(-1, 1, 300, dtype=np.float32)[:, None]
    for bits in (3, 7, 8):
        found = quantise(weight, bits)
        assert len(np.unique(found.numbers)) == 2**bits - 1
        assert np.abs(found.values - weight).max() <= found.scale.max() / 2 + 1e-6


def test_a_real_model_in_float(models: Path, tmp_path: Path) -> None:
    adopt(models / "minilm", tmp_path / "model")
    scorer = open_scorer(tmp_path / "model")
    exported(scorer, tmp_path / "model")
    values = open_scorer(tmp_path / "model", backend="onnx").score(EVERY).values
    assert np.abs(values - scorer.score(EVERY).values).max() < 1e-5
