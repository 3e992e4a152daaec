"""Every architecture scores as transformers and sentence-transformers do, on tiny random models."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.backends.tiny import (
    CONFIGS,
    EVERY,
    LENGTH,
    QUERIES,
    SEGMENTED,
    TEXTS,
    change_json,
    cross_encoder,
    pairs_of,
    save,
    torch,
    transformers,
)

from tamis.backends.network import open_tokens
from tamis.backends.protocols import Family
from tamis.backends.tokens import SEGMENTED_CLASSES, SEGMENTED_TYPES, Tokens
from tamis.cli.app import run
from tamis.errors import InputError
from tamis.models import import_model, open_ranker
from tamis.scorers.bi_encoder import BiEncoder
from tamis.scorers.cross_encoder import CrossEncoder
from tamis.scorers.target_words import TargetWords
from tamis.types import Pairs

sentence_transformers: Any = pytest.importorskip(
    "sentence_transformers", reason="sentence-transformers is not installed"
)
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
FAST = ("bert", "roberta", "xlm-roberta", "camembert", "distilbert", "modernbert")
TOLERANCE = 1e-4
BETWEEN_BACK_ENDS = 1e-5


@pytest.mark.parametrize("architecture", CONFIGS)
def test_a_cross_encoder(architecture: str, tmp_path: Path) -> None:
    folder = cross_encoder(tmp_path, architecture)
    scorer = CrossEncoder.open(folder, backend="transformers", device="cpu")
    scores = scorer.score(EVERY)
    other = sentence_transformers.CrossEncoder(str(folder), device="cpu")
    expected = other.predict(pairs_of(EVERY), batch_size=1)  # padding changes what some give
    assert np.ptp(expected) > 0.002
    assert np.abs(scores.values - expected).max() < TOLERANCE
    assert scores.truncated_tokens.sum() == 0
    alone = replace(scorer, budget=1).score(EVERY).values
    together = replace(scorer, budget=10_000).score(EVERY).values
    assert np.abs(alone - together).max() < TOLERANCE


@pytest.mark.parametrize("architecture", FAST)
def test_the_fast_back_end_is_taken_and_gives_the_same(architecture: str, tmp_path: Path) -> None:
    folder = cross_encoder(tmp_path, architecture)
    fast = CrossEncoder.open(folder, device="cpu")
    assert fast.runtime.backend == "fast"
    other = CrossEncoder.open(folder, backend="transformers", device="cpu")
    difference = fast.score(EVERY).values - other.score(EVERY).values
    assert np.abs(difference).max() < BETWEEN_BACK_ENDS


@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.parametrize("architecture", FAST)
def test_the_fast_back_end_gives_the_same_embeddings(
    architecture: str, pooling: str, tmp_path: Path
) -> None:
    bi_encoder(tmp_path, architecture, pooling)
    fast = BiEncoder.open(tmp_path / "model", backend="fast")
    other = BiEncoder.open(tmp_path / "model", backend="transformers", device="cpu")
    rows, expected = fast.encode(TEXTS), other.encode(TEXTS)
    assert np.abs(rows - expected).max() < BETWEEN_BACK_ENDS
    assert np.abs(rows[0] - rows[1]).max() > 0.01


def test_two_outputs(tmp_path: Path) -> None:
    folder = cross_encoder(tmp_path, "electra", 2)
    scorer = CrossEncoder.open(folder, device="cpu")
    other = sentence_transformers.CrossEncoder(str(folder), device="cpu")
    expected = other.predict(pairs_of(EVERY), apply_softmax=True)[:, 1]
    assert scorer.runtime.backend == "transformers" and scorer.scale == "probability"
    assert np.abs(scorer.score(EVERY).values - expected).max() < TOLERANCE


def test_long_pairs_are_counted_as_truncated(tmp_path: Path) -> None:
    folder = cross_encoder(tmp_path, "electra")
    pairs = Pairs(["drum sieve"], ["grain " * 500, "sea"], np.array([[0, 0], [0, 1]], np.int32))
    room = LENGTH - 4 - 3  # the tokenizer's own limit, less three special tokens
    scores = CrossEncoder.open(folder, device="cpu").score(pairs)
    assert scores.truncated_tokens.tolist() == [500 + 2 - room, 0]
    kept = Pairs(["drum sieve"], ["grain " * (room - 2)], np.array([[0, 0]], np.int32))
    whole = CrossEncoder.open(folder, device="cpu").score(kept)
    assert whole.truncated_tokens.sum() == 0
    assert abs(scores.values[0] - whole.values[0]) < TOLERANCE


def bi_encoder(folder: Path, architecture: str, pooling: str = "mean") -> Any:
    modules = sentence_transformers.sentence_transformer.modules
    plain = save(folder / "plain", architecture, "AutoModel")
    transformer = modules.Transformer(str(plain))
    made = sentence_transformers.SentenceTransformer(
        modules=[transformer, modules.Pooling(24, pooling_mode=pooling)], device="cpu"
    )
    made.save_pretrained(str(folder / "model"))
    return made


@pytest.mark.parametrize("architecture", CONFIGS)
def test_a_bi_encoder(architecture: str, tmp_path: Path) -> None:
    made = bi_encoder(tmp_path, architecture)
    encoder = BiEncoder.open(tmp_path / "model", backend="transformers", device="cpu")
    expected = made.encode(TEXTS, normalize_embeddings=True, batch_size=1)
    rows, truncated_tokens = encoder.encode_with_truncation(TEXTS)
    assert np.abs(expected[0] - expected[1]).max() > 0.01
    assert np.abs(rows - expected).max() < TOLERANCE
    assert truncated_tokens.sum() == 0
    alone = replace(encoder, budget=1).encode(TEXTS)
    assert np.abs(alone - replace(encoder, budget=10_000).encode(TEXTS)).max() < TOLERANCE


@pytest.mark.parametrize("pooling", ["mean", "lasttoken", "weightedmean", "max", "cls"])
@pytest.mark.parametrize("architecture", ["gpt2", "qwen2"])
def test_a_text_without_a_token_is_zeros(architecture: str, pooling: str, tmp_path: Path) -> None:
    made = bi_encoder(tmp_path, architecture, pooling)
    encoder = BiEncoder.open(tmp_path / "model", device="cpu")
    texts = ["", "a drum sieve", ""]
    rows = encoder.encode(texts)
    assert not rows[0].any() and np.array_equal(encoder.encode([""]), rows[:1])
    if pooling in ("mean", "lasttoken", "weightedmean"):  # others are left to its padding there
        assert np.abs(made.encode(texts, normalize_embeddings=True) - rows).max() < TOLERANCE
    assert np.abs(made.encode(texts[1:2], normalize_embeddings=True) - rows[1]).max() < TOLERANCE


TEMPLATE = "Query : {query} Document : {document} Relevant :"
LANGUAGE_MODELS: tuple[tuple[str, Family, str], ...] = (
    ("t5", "sequence-to-sequence", "AutoModelForSeq2SeqLM"),
    ("bart", "sequence-to-sequence", "AutoModelForSeq2SeqLM"),
    ("gpt2", "causal", "AutoModelForCausalLM"),
    ("qwen3", "causal", "AutoModelForCausalLM"),
    ("llama", "causal", "AutoModelForCausalLM"),
    ("distilbert", "masked", "AutoModelForMaskedLM"),
    ("modernbert", "masked", "AutoModelForMaskedLM"),
    ("convbert", "masked", "AutoModelForMaskedLM"),
    ("phi", "causal", "AutoModelForCausalLM"),
    ("opt", "causal", "AutoModelForCausalLM"),
)


@pytest.mark.parametrize(("architecture", "family", "auto"), LANGUAGE_MODELS)
def test_target_words(architecture: str, family: Family, auto: str, tmp_path: Path) -> None:
    folder = save(tmp_path, architecture, auto)
    scorer = TargetWords.open(
        folder, ["true", "false"], template=TEMPLATE, backend="transformers", device="cpu"
    )
    assert scorer.family == family
    model = getattr(transformers, auto).from_pretrained(folder).eval()
    tokens = transformers.AutoTokenizer.from_pretrained(folder)
    expected = []
    for query, text in pairs_of(EVERY):
        filled = TEMPLATE.format(query=query, document=text)
        encoded = tokens(filled + " [MASK]" * (family == "masked"), return_tensors="pt")
        encoded.pop("token_type_ids", None)
        with torch.inference_mode():
            if family == "sequence-to-sequence":
                start = torch.tensor([[model.config.decoder_start_token_id]])
                logits = model(**encoded, decoder_input_ids=start).logits[0, 0]
            elif family == "causal":
                logits = model(**encoded).logits[0, -1]
            else:
                place = (encoded["input_ids"][0] == tokens.mask_token_id).nonzero()[-1, 0]
                logits = model(**encoded).logits[0, place]
        words = logits[list(scorer.ids)]
        expected.append(float(words.softmax(0)[0]))
    values = scorer.score(EVERY).values
    assert np.ptp(expected) > 0.001
    assert np.abs(values - expected).max() < TOLERANCE
    together = replace(scorer, budget=10_000).score(EVERY).values
    assert np.abs(values - together).max() < TOLERANCE


def test_a_causal_cross_encoder_without_a_pad_token_reads_the_last_token(tmp_path: Path) -> None:
    folder = cross_encoder(tmp_path, "llama", pad_token_id=None)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokens = transformers.AutoTokenizer.from_pretrained(folder)
    expected = []
    with torch.inference_mode():
        for query, text in pairs_of(EVERY):
            ids = tokens(query, text, return_tensors="pt")["input_ids"]
            expected.append(float(model(ids).logits[0, 0].sigmoid()))
    scorer = CrossEncoder.open(folder, device="cpu")
    values = replace(scorer, budget=10_000).score(EVERY).values
    assert np.abs(values - expected).max() < TOLERANCE


def test_a_batch_has_one_length_only_where_padding_matters(tmp_path: Path) -> None:
    for architecture, kept_apart in (("electra", False), ("mobilebert", True)):
        folder = cross_encoder(tmp_path / architecture, architecture)
        model: Any = CrossEncoder.open(folder, device="cpu").model
        assert model.network.one_length == kept_apart


def test_queries_of_one_pair_equal_those_of_many(tmp_path: Path) -> None:
    scorer = CrossEncoder.open(cross_encoder(tmp_path, "qwen2"), device="cpu")
    values = scorer.score(EVERY).values
    for number, (q, t) in enumerate(EVERY.index.tolist()):
        one = Pairs([QUERIES[q]], [TEXTS[t]], np.zeros((1, 2), np.int32))
        assert abs(float(scorer.score(one).values[0]) - values[number]) < TOLERANCE


@pytest.mark.parametrize("architecture", [name for name in SEGMENTED if name != "bert"])
def test_segments_make_a_difference(architecture: str, tmp_path: Path) -> None:
    scorer = CrossEncoder.open(cross_encoder(tmp_path, architecture), device="cpu")
    scores = scorer.score(EVERY).values
    assert scorer.tokens.segmented and scorer.layout.segments == (0, 0, 0, 1, 1)
    plain = replace(scorer, layout=replace(scorer.layout, segments=(0, 0, 0, 0, 0)))
    assert np.abs(plain.score(EVERY).values - scores).max() > TOLERANCE


@pytest.mark.parametrize("architecture", CONFIGS)
def test_every_back_end_reads_the_same_tokens(architecture: str, tmp_path: Path) -> None:
    """A file alone says of segments what transformers says by the tokenizer's class."""
    folder = cross_encoder(tmp_path, architecture)
    ours, theirs = Tokens.open(folder), open_tokens(folder)
    assert ours.segmented == theirs.segmented == (architecture in SEGMENTED)
    assert ours.pair_layout() == theirs.pair_layout()
    assert ours.single_layout() == theirs.single_layout()


def test_the_classes_with_segments_are_those_of_transformers() -> None:
    auto: Any = pytest.importorskip("transformers.models.auto.tokenization_auto")
    classes = {name: auto.tokenizer_class_from_name(name) for name in SEGMENTED_CLASSES}
    assert all("token_type_ids" in each.model_input_names for each in classes.values())
    by_type = {name: str(auto.TOKENIZER_MAPPING_NAMES[name]) for name in SEGMENTED_TYPES}
    assert {name.removesuffix("Fast") for name in by_type.values()} <= set(SEGMENTED_CLASSES)


@pytest.mark.parametrize("backend", ["fast", "transformers"])
def test_positions_of_padding_are_not_tokens(backend: Any, tmp_path: Path) -> None:
    folder = cross_encoder(tmp_path, "roberta", pad_token_id=2)
    change_json(folder / "tokenizer_config.json", model_max_length=LENGTH)
    scorer = CrossEncoder.open(folder, backend=backend, device="cpu")
    assert scorer.model.longest == scorer.max_length == LENGTH - 3
    long = Pairs(["drum sieve"], ["grain " * 100], np.array([[0, 0]], np.int32))
    assert np.isfinite(scorer.score(long).values).all()


def named(folder: Path, activation: str) -> Path:
    """The folder, which names this activation for its output."""
    change_json(folder / "config.json", sentence_transformers={"activation_fn": activation})
    return folder


@pytest.mark.parametrize("outputs", [1, 2, 3])
@pytest.mark.parametrize("activation", ["Tanh", "ReLU", "Sigmoid", "SiLU", "GELU"])
def test_the_activation_that_a_folder_names(activation: str, outputs: int, tmp_path: Path) -> None:
    folder = cross_encoder(tmp_path / "plain", "electra", outputs)
    named(folder, f"torch.nn.modules.activation.{activation}")
    output = {1: None, 2: None, 3: 0}[outputs]
    scorer = CrossEncoder.open(folder, device="cpu", output=output)
    made = import_model(folder, tmp_path / "made", output=output)
    again = CrossEncoder.open(tmp_path / "made", device="cpu")
    assert again.scale == scorer.scale == made.scale
    assert scorer.scale == ("probability" if activation == "Sigmoid" else "regression")
    for place in (folder, tmp_path / "made"):
        other = sentence_transformers.CrossEncoder(str(place), device="cpu")
        columns = other.predict(pairs_of(EVERY)).reshape(len(EVERY), outputs)
        expected = columns[:, 0 if outputs == 3 else -1]
        assert np.abs(scorer.score(EVERY).values - expected).max() < TOLERANCE
    assert np.array_equal(again.score(EVERY).values, scorer.score(EVERY).values)


@pytest.mark.parametrize("activation", ["linear.Identity", "activation.Softmax"])
def test_two_outputs_are_a_softmax_where_no_other_activation_is_named(
    activation: str, tmp_path: Path
) -> None:
    folder = named(cross_encoder(tmp_path, "electra", 2), f"torch.nn.modules.{activation}")
    other = sentence_transformers.CrossEncoder(str(folder), device="cpu")
    expected = other.predict(pairs_of(EVERY), activation_fn=torch.nn.Softmax(dim=1))[:, 1]
    scorer = CrossEncoder.open(folder, device="cpu")
    assert scorer.scale == "probability"
    assert np.abs(scorer.score(EVERY).values - expected).max() < TOLERANCE


@pytest.mark.parametrize(
    ("outputs", "activation"), [(1, "Hardtanh"), (2, "Hardtanh"), (3, "Identity")]
)
def test_a_hint_is_a_command_that_works(
    outputs: int, activation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = named(cross_encoder(Path("plain"), "electra", outputs), f"torch.nn.{activation}")
    with pytest.raises(InputError) as caught:
        open_ranker(folder)
    words = shlex.split(caught.value.hint)
    assert run(words[words.index("import-model") :]) == 0
    scorer: Any = open_ranker("plain-imported").scorer
    assert np.ptp(scorer.score(EVERY).values) > 0
    if outputs == 3:
        assert scorer.output == 2
        other = sentence_transformers.CrossEncoder("plain-imported", device="cpu")
        expected = other.predict(pairs_of(EVERY), apply_softmax=True)[:, 2]
        assert np.abs(scorer.score(EVERY).values - expected).max() < TOLERANCE


@pytest.mark.parametrize("settings", [
    {"prompts": {"query": "how ", "web": "grain "}, "default_prompt_name": "web"},
    {"prompts": {"query": "how "}}, {"prompts": {"query": "how "}, "default_prompt_name": "query"},
])  # fmt: skip
def test_the_prompt_of_pairs_is_the_default_alone(settings: Any, tmp_path: Path) -> None:
    plain = cross_encoder(tmp_path / "plain", "bert")
    made = sentence_transformers.CrossEncoder(str(plain), device="cpu", **settings)
    made.save_pretrained(str(tmp_path / "model"))
    expected = made.predict(pairs_of(EVERY))
    import_model(tmp_path / "model", tmp_path / "imported")
    for place in ("model", "imported"):
        scores = CrossEncoder.open(tmp_path / place, device="cpu").score(EVERY).values
        assert np.abs(scores - expected).max() < TOLERANCE
    change_json(plain / "config_sentence_transformers.json", **settings)  # unread without modules
    scores = CrossEncoder.open(plain, device="cpu").score(EVERY).values
    other = sentence_transformers.CrossEncoder(str(plain), device="cpu")
    assert np.abs(scores - other.predict(pairs_of(EVERY))).max() < TOLERANCE


@pytest.mark.parametrize("backend", ["fast", "transformers"])
@pytest.mark.parametrize("where", ["sentence_bert_config.json", "tokenizer_config.json"])
def test_case_is_lowered_where_a_file_beside_the_tokenizer_says_so(
    where: str, backend: Any, tmp_path: Path
) -> None:
    bi_encoder(tmp_path, "bert")
    change_json(tmp_path / "model" / where, do_lower_case=True)
    texts = ["A Drum SIEVE is a NET", "Query grain"]
    other = sentence_transformers.SentenceTransformer(str(tmp_path / "model"), device="cpu")
    expected = other.encode(texts, normalize_embeddings=True)
    encoder = BiEncoder.open(tmp_path / "model", backend=backend, device="cpu")
    assert np.abs(encoder.encode(texts) - expected).max() < TOLERANCE
    assert np.array_equal(encoder.encode(texts), encoder.encode([text.lower() for text in texts]))
    import_model(tmp_path / "model", tmp_path / "made")
    made = BiEncoder.open(tmp_path / "made", backend=backend, device="cpu")
    assert np.abs(made.encode(texts) - expected).max() < TOLERANCE


def test_texts_truncated_at_their_start_are_refused(tmp_path: Path) -> None:
    bi_encoder(tmp_path, "bert")
    folder = cross_encoder(tmp_path / "pairs", "bert")
    for place in (folder, tmp_path / "model"):
        change_json(place / "tokenizer_config.json", truncation_side="left")
    with pytest.raises(InputError, match="truncates texts at their start"):
        BiEncoder.open(tmp_path / "model", device="cpu")
    with pytest.raises(InputError, match="truncates texts at their start") as caught:
        CrossEncoder.open(folder, device="cpu")
    assert '"truncation_side": "right"' in caught.value.hint
    change_json(folder / "tokenizer_config.json", truncation_side="right")
    CrossEncoder.open(folder, device="cpu")
