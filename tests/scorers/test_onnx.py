"""Exported models score as transformers does, in float, and nearly so in 8-bit integers."""

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

from tamis.backends import onnx as _onnx
from tamis.backends.onnx import ONNX_FILES
from tamis.backends.protocols import Backend, Kind
from tamis.errors import InputError, install_command
from tamis.models import ModelManifest, import_model, open_model, open_scorer
from tamis.models.onnx_files import write_float, write_int8
from tamis.scorers.bi_encoder import BiEncoder
from tamis.scorers.cross_encoder import CrossEncoder
from tamis.scorers.target_words import TargetWords
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


def exported(scorer: Scorer, folder: Path, int8: bool = False) -> Backend:
    """Write the export of an opened model into its folder; the back end that runs it."""
    path = folder / ONNX_FILES["onnx"]
    path.parent.mkdir(exist_ok=True)
    write_float(path, scorer, folder)
    if int8:
        write_int8(folder / ONNX_FILES["onnx-int8"], path, kind_of(scorer))
    return "onnx-int8" if int8 else "onnx"


def kind_of(scorer: Scorer) -> Kind:
    if isinstance(scorer, TargetWords):
        return "target-words"
    return "cross-encoder" if isinstance(scorer, CrossEncoder) else "bi-encoder"


def scores_of_transformers(folder: Path, pairs: Pairs) -> NDArray[np.float32]:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    encoded = tokenizer(*in_order(pairs), padding=True, return_tensors="pt")
    with torch.inference_mode():
        logits = model(**encoded).logits
    found: NDArray[np.float32] = (
        logits[:, 0].sigmoid() if logits.shape[1] == 1 else logits.softmax(1)[:, 1]
    ).numpy()
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
    values = 1 / (1 + np.exp(-logits[:, 0]))
    assert np.abs(values - scores_of_transformers(folder, EVERY)).max() < 1e-5


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


def test_a_t5_has_no_longest_text_but_the_model_s_own(tmp_path: Path) -> None:
    folder = t5(tmp_path)
    backend = exported(TargetWords.open(folder, ["true", "false"]), folder)
    pairs = Pairs(["grain"], ["a drum sieve " * 300], np.array([[0, 0]], np.int32))
    values = [
        TargetWords.open(folder, ["true", "false"], max_length=900, backend=each).score(pairs)
        for each in ("fast", backend)
    ]
    assert values[0].values == pytest.approx(values[1].values, abs=1e-4)
    assert values[0].truncated_tokens.tolist() == values[1].truncated_tokens.tolist()
    assert values[0].truncated_tokens[0] > 0


def weights_of(path: Path) -> dict[str, NDArray[Any]]:
    """The constants of an ONNX file that are 8-bit integers, by name."""
    kinds = (onnx.TensorProto.INT8, onnx.TensorProto.UINT8)
    found = onnx.load(path).graph.initializer
    return {
        each.name: onnx.numpy_helper.to_array(each)
        for each in found
        if each.data_type in kinds and len(each.dims) == 2
    }


def test_which_weights_of_a_cross_encoder_are_integers(tmp_path: Path) -> None:
    folder = bert(tmp_path)
    exported(CrossEncoder.open(folder), folder, int8=True)
    found = list(weights_of(folder / ONNX_FILES["onnx-int8"]).values())
    assert len(found) == 3 * 6  # layers, and of each: query, key, value, out, feed-forward
    assert {each.dtype for each in found} == {np.dtype(np.int8)}
    assert max(np.abs(each.astype(int)).max() for each in found) <= 64


def test_which_weights_of_a_t5_are_integers(tmp_path: Path) -> None:
    folder = t5(tmp_path)
    exported(TargetWords.open(folder, ["true", "false"]), folder, int8=True)
    found = weights_of(folder / ONNX_FILES["onnx-int8"])
    assert len(found) == 2 * (4 + 2) + 3 * (8 + 2)  # attention, and two matrices into each feed
    assert {each.dtype for each in found.values()} == {np.dtype(np.uint8)}
    assert not [each for each in found.values() if each.shape == (48, 32)]  # out of the feed
    assert not [each for each in found.values() if each.shape == (32, 2)]  # the two words


def test_integers_are_near_to_float(tmp_path: Path) -> None:
    def language_model(folder: Path, **more: Any) -> TargetWords:
        return TargetWords.open(folder, ["true", "false"], **more)

    def encoder(folder: Path, **more: Any) -> BiEncoder:
        return BiEncoder.open(folder, pooling="mean", **more)

    opens: list[tuple[Make, Any]] = [
        (bert, CrossEncoder.open),
        (bert, encoder),
        (lambda folder: t5(folder, noise=0.05), language_model),
    ]
    for number, (make, scorer_of) in enumerate(opens):
        folder = make(tmp_path / str(number))
        model = scorer_of(folder)
        expected = model.score(EVERY).values
        backend = exported(model, folder, int8=True)
        values = scorer_of(folder, backend=backend).score(EVERY).values
        off = float(np.sqrt(((values - expected) ** 2).mean()))
        assert 0 < off < 0.06 * np.ptp(expected), number


def test_padding_and_batches_leave_scores_alone(tmp_path: Path) -> None:
    folder = bert(tmp_path)
    backend = exported(CrossEncoder.open(folder), folder)
    scorer = CrossEncoder.open(folder, backend=backend)
    alone = replace(scorer, budget=1, threads=1).score(EVERY).values
    assert np.abs(replace(scorer, budget=10_000).score(EVERY).values - alone).max() < 1e-5


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model folder with a float export."""
    import_model(bert(tmp_path / "plain"), tmp_path / "model", max_length=40)
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
print(*scores.values.tolist(), *scores.truncated_tokens.tolist())
try:
    open_scorer(sys.argv[1], backend="fast")
except MissingExtraError as error:
    print(error.hint)
"""


def test_scoring_from_an_export_needs_no_torch(model: Path) -> None:
    pairs = Pairs(["grain", "a drum sieve"], ["a net", "rivers flow to the sea " * 9],
                  np.array([[0, 0], [0, 1], [1, 1]], np.int32))  # fmt: skip
    expected = open_scorer(model, backend="fast").score(pairs)
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, str(model)], capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    numbers, hint = done.stdout.splitlines()
    found = [float(number) for number in numbers.split()]
    assert np.allclose(found[:3], expected.values, atol=1e-4)
    assert found[3:] == expected.truncated_tokens.tolist()
    assert sum(found[3:]) > 0
    assert hint == install_command("neural")


def test_which_back_end_runs_a_folder(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def kind() -> str:
        scorer = open_scorer(model)
        assert isinstance(scorer, CrossEncoder)
        return type(scorer.model).__name__

    assert kind() == "FastCrossEncoder"
    monkeypatch.setattr("tamis.models.folder.find_spec", lambda name: None)
    assert kind() == "OnnxCrossEncoder"
    monkeypatch.undo()
    (model / "model.safetensors").unlink()
    assert kind() == "OnnxCrossEncoder"
    assert isinstance(open_model(model), ModelManifest)
    with pytest.raises(InputError, match="has no weights"):
        open_scorer(model, backend="fast")
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
    path = model / ONNX_FILES["onnx"]
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="cannot be read"):
        open_scorer(model, backend="onnx")
    path.write_bytes(whole)
    with pytest.raises(InputError, match="not written by tamis for a bi-encoder"):
        _onnx.Session.open(model, "onnx", "bi-encoder")


def test_a_real_model_in_float(models: Path, tmp_path: Path) -> None:
    import_model(models / "minilm", tmp_path / "model")
    scorer = open_scorer(tmp_path / "model")
    exported(scorer, tmp_path / "model")
    values = open_scorer(tmp_path / "model", backend="onnx").score(EVERY).values
    assert np.abs(values - scorer.score(EVERY).values).max() < 1e-4
