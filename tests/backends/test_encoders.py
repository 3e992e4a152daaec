"""DistilBERT and ModernBERT give what transformers gives: vectors, scores and gradients."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tamis.backends import fast
from tamis.backends.weights import Loaded, read_weights
from tamis.errors import InputError
from tamis.fitting.query_encoder_export import export_query_encoder, has_export
from tamis.models import import_model, open_scorer
from tamis.models.onnx_files import write_float
from tamis.scorers.bi_encoder import BiEncoder
from tamis.scorers.cross_encoder import CrossEncoder
from tamis.training.trainable import open_trainable
from tamis.types import Pairs

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
os.environ["HF_HUB_OFFLINE"] = "1"

WORDS = "a drum sieve is or net grain rivers flow to the sea and how does it work".split()
SPECIAL = ["[UNK]", "[PAD]", "[CLS]", "[SEP]"]
SIZE = len(SPECIAL) + len(WORDS)
REACH = 4
QUERIES = ["how does a drum sieve work", "grain", ""]
TEXTS = ["a drum sieve is a net", "rivers flow " * 9, "", "grain or sea", "net " * 30, "net"]
EVERY = Pairs(QUERIES, TEXTS, np.indices((3, 6), np.int32).reshape(2, -1).T)
SHAPE = {"vocab_size": SIZE, "hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4,
         "intermediate_size": 24, "max_position_embeddings": 66, "pad_token_id": 1}  # fmt: skip
LENGTHS = [5, 1, 2, 5, 6, 11, 12, 13, 13, 30, 61, 61]
"""On both sides of the reach of a local layer, and of three times it."""


def modernbert(**settings: Any) -> Any:
    return transformers.ModernBertConfig(
        **SHAPE, local_attention=2 * REACH, bos_token_id=2, eos_token_id=3, cls_token_id=2,
        sep_token_id=3, **settings,
    )  # fmt: skip


def uneven_turns() -> Any:
    bases = {"full_attention": 500.0, "sliding_attention": 40.0}
    return modernbert(
        rope_parameters={
            kind: {"rope_type": "default", "rope_theta": base} for kind, base in bases.items()
        }
    )


CONFIGS: dict[str, Callable[[], Any]] = {
    "distilbert": lambda: transformers.DistilBertConfig(
        vocab_size=SIZE, dim=32, n_layers=3, n_heads=4, hidden_dim=48, pad_token_id=1,
        max_position_embeddings=66,
    ),
    "distilbert, sines": lambda: transformers.DistilBertConfig(
        vocab_size=SIZE, dim=32, n_layers=1, n_heads=2, hidden_dim=48, pad_token_id=1,
        max_position_embeddings=66, sinusoidal_pos_embds=True,
    ),
    "modernbert": modernbert,
    "modernbert, last layer local": lambda: modernbert(global_attn_every_n_layers=2),
    "modernbert, one layer": lambda: transformers.ModernBertConfig(
        **{**SHAPE, "num_hidden_layers": 1}
    ),
    "modernbert, uneven turns": uneven_turns,
    "modernbert, biases": lambda: modernbert(
        norm_bias=True, attention_bias=True, mlp_bias=True, classifier_bias=True
    ),
    "modernbert, mean": lambda: modernbert(classifier_pooling="mean", classifier_activation="silu"),
}  # fmt: skip
KINDS = ["distilbert", "modernbert", "modernbert, biases", "modernbert, mean"]


def shaken(model: Any, seed: int = 1) -> Any:
    """The model with other weights, so that zeros and ones are none any more."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight), alpha=0.3)
    return model.eval()


def pair_of_models(config: Any) -> tuple[Any, Any]:
    """Ours and that of transformers, with the same weights."""
    theirs = shaken(transformers.AutoModel.from_config(config))
    weights = {name: value.detach() for name, value in theirs.state_dict().items()}
    plain = json.loads(config.to_json_string())
    return fast.build(Loaded(Path("none"), plain, weights, None)), theirs  # type: ignore[arg-type]


def sequences_of(lengths: Sequence[int]) -> list[Any]:
    numbers = np.random.default_rng(0)
    return [numbers.integers(2, SIZE, length).astype(np.int32) for length in sorted(lengths)]


@pytest.mark.parametrize("name", CONFIGS)
def test_every_token_has_the_vector_of_transformers(name: str) -> None:
    ours, theirs = pair_of_models(CONFIGS[name]())
    sequences = sequences_of(LENGTHS)
    segments = [np.zeros_like(sequence) for sequence in sequences]
    with torch.inference_mode():
        expected = [
            theirs(torch.from_numpy(sequence[None].astype(np.int64))).last_hidden_state[0]
            for sequence in sequences
        ]
        every = ours.all_tokens(sequences, segments)
        first = ours.first_tokens(sequences, segments)
        alone = [ours.first_tokens([sequence], [sequence * 0]) for sequence in sequences]
    scale = max(1.0, float(torch.cat(expected).abs().max()))
    assert float(torch.cat(expected).std()) > 0.1
    assert float((every - torch.cat(expected)).abs().max()) < 1e-5 * scale
    assert float((first - torch.stack([rows[0] for rows in expected])).abs().max()) < 1e-5 * scale
    assert float((torch.cat(alone) - first).abs().max()) < 1e-5 * scale


@pytest.mark.parametrize("name", CONFIGS)
def test_longest_is_what_transformers_takes(name: str) -> None:
    ours, theirs = pair_of_models(CONFIGS[name]())
    longest = theirs.config.max_position_embeddings
    assert ours.longest == longest
    ours.first_tokens(*[[np.full(longest, 5, np.int32)]] * 2)


def test_older_names_of_bases_are_read() -> None:
    config = uneven_turns()
    ours, theirs = pair_of_models(config)
    plain = json.loads(config.to_json_string())
    old = {
        name: value
        for name, value in plain.items()
        if name not in ("rope_parameters", "layer_types")
    }
    old |= {"global_rope_theta": 500.0, "local_rope_theta": 40.0, "global_attn_every_n_layers": 3}
    weights = {name: value.detach() for name, value in theirs.state_dict().items()}
    older = fast.build(Loaded(Path("none"), old, weights, None))  # type: ignore[arg-type]
    sequences = sequences_of(LENGTHS)
    with torch.inference_mode():
        assert torch.equal(
            older.all_tokens(sequences, sequences), ours.all_tokens(sequences, sequences)
        )


def test_scaled_turns_and_unknown_families_are_refused() -> None:
    plain = json.loads(modernbert().to_json_string())
    theirs = transformers.AutoModel.from_config(modernbert())
    for change, words in (
        ({"rope_parameters": {"full_attention": {"rope_type": "yarn"}}}, "scales its rotary"),
        ({"model_type": "deberta-v2"}, "deberta-v2"),
        ({"hidden_activation": "sine"}, "sine"),
    ):
        loaded = Loaded(Path("none"), {**plain, **change}, dict(theirs.state_dict()), None)  # type: ignore[arg-type]
        with pytest.raises(InputError, match=words):
            fast.build(loaded)


def saved(folder: Path, model: Any) -> Path:
    numbers = {word: number for number, word in enumerate([*SPECIAL, *WORDS])}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(numbers, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )  # fmt: skip
    shaken(model).save_pretrained(folder)
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="[PAD]", unk_token="[UNK]", model_max_length=64,
        model_input_names=["input_ids", "attention_mask"],
    ).save_pretrained(folder)  # fmt: skip
    return folder


def classifier(folder: Path, name: str, outputs: int) -> Path:
    config = CONFIGS[name]()
    config.num_labels = outputs
    return saved(folder, transformers.AutoModelForSequenceClassification.from_config(config))


def in_order(pairs: Pairs) -> list[tuple[str, str]]:
    return [(pairs.queries[q], pairs.texts[t]) for q, t in pairs.index.tolist()]


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("outputs", [1, 2])
def test_a_cross_encoder_predicts_as_sentence_transformers(
    name: str, outputs: int, tmp_path: Path
) -> None:
    sbert = pytest.importorskip("sentence_transformers")
    ours = CrossEncoder.open(classifier(tmp_path, name, outputs)).score(EVERY)
    theirs = sbert.CrossEncoder(str(tmp_path), device="cpu").predict(in_order(EVERY))
    expected = theirs if outputs == 1 else np.exp(theirs[:, 1]) / np.exp(theirs).sum(1)
    assert np.ptp(expected) > 0.01
    assert np.abs(ours.values - expected).max() < 1e-4
    assert ours.truncated_tokens.sum() == 0


@pytest.mark.parametrize("name", KINDS[:3])
@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_a_bi_encoder_encodes_as_sentence_transformers(
    name: str, pooling: str, tmp_path: Path
) -> None:
    sbert = pytest.importorskip("sentence_transformers")
    folder = saved(tmp_path / "plain", transformers.AutoModel.from_config(CONFIGS[name]()))
    import_model(folder, tmp_path / "made", kind="bi-encoder", pooling=pooling)
    theirs = sbert.SentenceTransformer(str(tmp_path / "made"), device="cpu")
    encoded = BiEncoder.open(tmp_path / "made").encode(TEXTS)
    expected = theirs.encode(TEXTS, normalize_embeddings=True)
    assert np.abs(encoded - expected).max() < 1e-4
    assert np.abs(encoded - encoded[0]).max() > 0.01


def same_gradients(ours: Any, theirs: Any) -> None:
    mine = {name: weight.grad for name, weight in ours.named_parameters()}
    peers = {name: weight.grad for name, weight in theirs.named_parameters()}
    assert set(mine) == set(peers)
    for name, grad in peers.items():
        own = torch.zeros_like(grad) if mine[name] is None else mine[name].to_dense()
        wanted = torch.zeros_like(own) if grad is None else grad
        assert float((own - wanted).abs().max()) < 1e-4 * max(1.0, float(wanted.abs().max())), name


@pytest.mark.parametrize("name", KINDS)
def test_training_has_the_gradients_of_transformers_and_lowers_the_loss(
    name: str, tmp_path: Path
) -> None:
    model = open_trainable(classifier(tmp_path, name, 1), dropout=0)
    queries, texts = map(list, zip(*in_order(EVERY), strict=True))
    prepared = model.prepare(queries, texts)
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    logits = theirs(**tokenizer(queries, texts, padding=True, return_tensors="pt")).logits
    scores = model(prepared)
    assert float((scores - logits).detach().abs().max()) < 1e-5
    (scores**2).sum().backward()
    (logits**2).sum().backward()
    same_gradients(model, theirs)
    with torch.no_grad():
        for weight in model.parameters():
            weight -= 1e-5 * (0 if weight.grad is None else weight.grad.to_dense())
        assert float((model(prepared) ** 2).sum()) < float((scores**2).sum())


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("random_weights", [False, True])
def test_a_body_is_trained_with_dropout_and_saved_for_all_to_open(
    name: str, random_weights: bool, tmp_path: Path
) -> None:
    base = saved(tmp_path / "base", transformers.AutoModel.from_config(CONFIGS[name]()))
    model = open_trainable(base, dropout=0.1, random_weights=random_weights)
    queries, texts = map(list, zip(*in_order(EVERY), strict=True))
    prepared = model.prepare(queries, texts)
    assert not torch.equal(model(prepared), model(prepared))
    model(prepared).sum().backward()
    assert all(
        bool(w.grad is None or w.grad.to_dense().isfinite().all()) for w in model.parameters()
    )
    model.save(tmp_path / "made")
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "made")
    assert set(theirs.state_dict()) == set(read_weights(tmp_path / "made"))
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "made")
    with torch.inference_mode():
        given = tokenizer(queries, texts, padding=True, return_tensors="pt")
        expected = theirs.eval()(**given).logits[:, 0].numpy()
    scorer = open_scorer(tmp_path / "made")
    assert np.abs(scorer.score(EVERY).values - expected).max() < 1e-4


def test_all_mpnet_encodes_as_sentence_transformers(data: Path, models: Path) -> None:
    sbert = pytest.importorskip("sentence_transformers")
    if not (models / "mpnet").is_dir():
        pytest.skip(f"{models} has no mpnet")
    lines = (data / "squad" / "corpus.jsonl").read_text("utf-8").splitlines()[:20]
    texts = [str(json.loads(line)["text"]) for line in lines]
    theirs = sbert.SentenceTransformer(str(models / "mpnet"), device="cpu")
    expected = theirs.encode(texts, normalize_embeddings=True)
    assert np.abs(BiEncoder.open(models / "mpnet").encode(texts) - expected).max() < 1e-5


def test_an_export_says_which_families_it_knows(tmp_path: Path) -> None:
    folder = classifier(tmp_path, "distilbert", 1)
    scorer = CrossEncoder.open(folder)
    with pytest.raises(InputError, match="'distilbert', which tamis does not export"):
        write_float(tmp_path / "model.onnx", scorer, folder)


def test_a_fit_leaves_queries_of_these_families_to_torch(tmp_path: Path) -> None:
    plain = saved(tmp_path / "plain", transformers.AutoModel.from_config(CONFIGS["distilbert"]()))
    import_model(plain, tmp_path / "made", kind="bi-encoder", pooling="mean")
    index = SimpleNamespace(snapshot=SimpleNamespace(embeddings=True))
    base = SimpleNamespace(folder=tmp_path / "made", has_own_forward=True)
    request = SimpleNamespace(ranking_dtype="float32")
    fit: Any = SimpleNamespace(base=base, index=index, request=request)
    export_query_encoder(fit, tmp_path / "made")  # fails where it goes on: there is no fit.work
    assert not has_export(tmp_path / "made")


def test_configs_that_only_transformers_runs_are_left_to_it() -> None:
    yarn = {"full_attention": {"rope_type": "yarn"}}
    plain: dict[str, dict[str, Any]] = {
        "distilbert": {"activation": "sine"},
        "modernbert": {"rope_parameters": yarn},
    }
    for name, other in plain.items():
        config = json.loads(CONFIGS[name]().to_json_string())
        assert fast.applies("cross-encoder", config) and fast.applies("bi-encoder", config)
        assert not fast.applies("bi-encoder", {**config, **other})
    named = {"model_type": "modernbert", "hidden_activation": "sine"}
    assert not fast.applies("bi-encoder", named)
    odd = {"model_type": "modernbert", "classifier_activation": "sine"}
    assert fast.applies("bi-encoder", odd) and not fast.applies("cross-encoder", odd)
