"""Model folders: what they say of themselves, how a plain one is taken in, what is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tamis.backends.tokens import Tokens
from tamis.backends.weights import check_embeddings
from tamis.errors import DamagedError, InputError
from tamis.models import (
    Base,
    ModelManifest,
    describe_model,
    find_base,
    identify,
    import_model,
    open_model,
    open_ranker,
    open_scorer,
)
from tamis.models.base_models import KNOWN_MODELS
from tamis.scorers.bi_encoder import BiEncoder
from tamis.scorers.cross_encoder import CrossEncoder
from tamis.scorers.model_manifest import read_model_manifest, write_model_manifest
from tamis.types import Pairs

os.environ["HF_HUB_OFFLINE"] = "1"
EVERY = np.indices((2, 3), np.int32).reshape(2, -1).T
PAIRS = Pairs(["net", "a sea"], ["sea net", "a", "a b net"], EVERY)
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "net", "sea", "a", "b"]


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """A tiny cross-encoder with one output, as transformers saves it."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    torch.manual_seed(0)
    numbers = {word: number for number, word in enumerate(WORDS)}
    made = tokenizers.Tokenizer(tokenizers.models.WordPiece(numbers, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    config = transformers.BertConfig(
        vocab_size=len(WORDS), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=24, max_position_embeddings=40, num_labels=1, initializer_range=0.5,
    )  # fmt: skip
    folder = tmp_path / "plain"
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
    names = ["input_ids", "token_type_ids", "attention_mask"]
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]",
        unk_token="[UNK]", model_input_names=names,
    ).save_pretrained(folder)  # fmt: skip
    return folder


def change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_a_note_is_read_as_it_was_written(tmp_path: Path) -> None:
    note = ModelManifest(
        "target-words", 300, "probability", template="{query} {document}", words=("▁a", "▁b"),
        word_ids=(3, 4), score="words", base=Base("t5", "ab" * 32), facts={"seed": 7},
    )  # fmt: skip
    write_model_manifest(tmp_path, note)
    found = read_model_manifest(tmp_path)
    assert found.facts["seed"] == 7
    write_model_manifest(tmp_path, found)
    assert read_model_manifest(tmp_path) == found
    assert (found.words, found.word_ids, found.base) == (note.words, note.word_ids, note.base)
    assert ("words", "▁a (3) against ▁b (4)") in describe_model(found)


@pytest.mark.parametrize("lost", ["scorer", "max_length", "scale"])
def test_a_note_without_what_it_needs_is_damaged(lost: str, tmp_path: Path) -> None:
    write_model_manifest(tmp_path, ModelManifest("bi-encoder", 10, "cosine", pooling="mean"))
    values = json.loads((tmp_path / "tamis.json").read_text())
    del values[lost]
    (tmp_path / "tamis.json").write_text(json.dumps(values))
    with pytest.raises(DamagedError, match=lost):
        read_model_manifest(tmp_path)


def test_a_plain_folder_is_told_from_a_model(plain: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"without tamis\.json") as caught:
        open_model(plain)
    assert "tamis import-model" in caught.value.hint
    with pytest.raises(InputError, match="is not a tamis model"):
        open_model(tmp_path / "nothing")


def test_an_adopted_cross_encoder_scores_the_same_everywhere(plain: Path, tmp_path: Path) -> None:
    note = import_model(plain, tmp_path / "out", max_length=30)
    assert (note.scorer, note.max_length, note.scale, note.outputs) == (
        "cross-encoder", 30, "probability", 1,
    )  # fmt: skip
    assert open_model(tmp_path / "out").base == identify(plain)
    scorer = open_scorer(tmp_path / "out", threads=1)
    assert isinstance(scorer, CrossEncoder)
    assert scorer.max_length == 30
    values = scorer.score(PAIRS).values
    assert np.array_equal(values, CrossEncoder.open(plain).score(PAIRS).values)
    sentence_transformers = pytest.importorskip("sentence_transformers")
    model = sentence_transformers.CrossEncoder(str(tmp_path / "out"), device="cpu")
    texts = [(PAIRS.queries[q], PAIRS.texts[t]) for q, t in PAIRS.index.tolist()]
    assert model.tokenizer.model_max_length == 30
    assert np.ptp(values) > 1e-3
    assert np.abs(model.predict(texts) - values).max() < 1e-5


@pytest.mark.parametrize(
    ("name", "scale"),
    [("activation.Sigmoid", "probability"), ("linear.Identity", "logit")],
)
def test_an_activation_named_in_the_config_is_kept(
    name: str, scale: str, plain: Path, tmp_path: Path
) -> None:
    settings = {"activation_fn": f"torch.nn.modules.{name}"}
    change(plain / "config.json", sentence_transformers=settings)
    assert import_model(plain, tmp_path / "out").scale == scale


def test_an_adopted_bi_encoder_encodes_the_same_everywhere(plain: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="pooled") as caught:
        import_model(plain, tmp_path / "out", kind="bi-encoder")
    adopted = (
        f"tamis import-model {plain} -o {plain.name}-imported --kind bi-encoder --pooling mean"
    )
    assert adopted in caught.value.hint
    assert not (tmp_path / "out").exists()
    note = import_model(plain, tmp_path / "out", kind="bi-encoder", pooling="cls", max_length=20)
    assert (note.pooling, note.scale, note.max_length) == ("cls", "cosine", 20)
    scorer: Any = open_scorer(tmp_path / "out")
    sentence_transformers = pytest.importorskip("sentence_transformers")
    model = sentence_transformers.SentenceTransformer(str(tmp_path / "out"), device="cpu")
    texts = ["net", "a sea", "", "net " * 50]
    assert np.abs(model.encode(texts) - scorer.encode(texts)).max() < 1e-5


@pytest.mark.parametrize("name", ["sentence_transformers.models.CNN", "my_package.Whitening"])
def test_a_bi_encoder_with_other_modules_is_refused(name: str, plain: Path, tmp_path: Path) -> None:
    import_model(plain, tmp_path / "out", kind="bi-encoder", pooling="cls")
    path = tmp_path / "out" / "modules.json"
    modules = json.loads(path.read_text())
    path.write_text(json.dumps([*modules, {"idx": 3, "name": "3", "path": "3", "type": name}]))
    with pytest.raises(InputError, match=f"module that tamis does not run: {name}"):
        open_scorer(tmp_path / "out")
    path.write_text('{"idx": 0}')
    with pytest.raises(InputError, match="lists no modules"):
        open_scorer(tmp_path / "out")


def test_pooling_is_read_where_the_modules_say(plain: Path, tmp_path: Path) -> None:
    import_model(plain, tmp_path / "out", kind="bi-encoder", pooling="cls")
    folder = tmp_path / "out"
    (folder / "tamis.json").unlink()
    (folder / "1_Pooling").rename(folder / "2_Other")
    modules = json.loads((folder / "modules.json").read_text())
    modules[1]["path"] = "2_Other"
    (folder / "modules.json").write_text(json.dumps(modules))
    change(folder / "config.json", architectures=["BertModel"])
    assert import_model(folder, tmp_path / "again").pooling == "cls"


def test_prompts_are_read_for_queries_and_documents(plain: Path, tmp_path: Path) -> None:
    import_model(plain, tmp_path / "out", kind="bi-encoder", pooling="cls")
    prompts = {"prompts": {"query": "query: ", "document": ""}}
    path = tmp_path / "out" / "config_sentence_transformers.json"
    for default in (None, "query"):
        path.write_text(json.dumps({**prompts, "default_prompt_name": default}))
        encoder = open_scorer(tmp_path / "out")
        assert isinstance(encoder, BiEncoder) and encoder.documents is not None
        assert (encoder.prompt, encoder.documents.prompt) == ("query: ", "")


@pytest.mark.parametrize(("said", "length"), [(12, 12), (10**30, 40), (1e30, 40), (0, 40)])
def test_a_tokenizer_says_where_pairs_are_cut(
    said: float, length: int, plain: Path, tmp_path: Path
) -> None:
    change(plain / "tokenizer_config.json", model_max_length=said)
    assert CrossEncoder.open(plain).max_length == length
    assert import_model(plain, tmp_path / "out").max_length == length
    sentence_transformers = pytest.importorskip("sentence_transformers")
    model = sentence_transformers.CrossEncoder(str(tmp_path / "out"), device="cpu")
    assert model.max_seq_length == length


def test_a_folder_that_does_not_say_its_kind_must_be_told(plain: Path, tmp_path: Path) -> None:
    change(plain / "config.json", architectures=["BertModel"])
    with pytest.raises(InputError, match="does not say what kind of scorer") as caught:
        import_model(plain, tmp_path / "out")
    assert "cross-encoder, bi-encoder, target-words" in caught.value.hint


def test_a_scorer_of_another_kind_is_refused(plain: Path, tmp_path: Path) -> None:
    import_model(plain, tmp_path / "out", kind="bi-encoder", pooling="mean")
    with pytest.raises(InputError, match="is a bi-encoder, not a cross-encoder"):
        CrossEncoder.open(tmp_path / "out")


@pytest.mark.parametrize(
    ("lost", "said"),
    [("config.json", "no config"), ("tokenizer.json", "no tokenizer"),
     ("model.safetensors", "no weights")],
)  # fmt: skip
def test_missing_files_are_named(lost: str, said: str, plain: Path) -> None:
    (plain / lost).unlink()
    with pytest.raises(InputError, match=said):
        CrossEncoder.open(plain)


def test_a_tokenizer_of_another_model_is_refused(plain: Path) -> None:
    path = plain / "tokenizer.json"
    made = json.loads(path.read_text())
    made["model"]["vocab"]["more"] = len(WORDS)
    path.write_text(json.dumps(made))
    with pytest.raises(InputError, match="tokenizer has 9 ids, the weights have 8 embeddings"):
        CrossEncoder.open(plain)


def test_embeddings_may_be_padded_but_not_by_a_lot(plain: Path) -> None:
    tokens, name = Tokens.open(plain), "bert.embeddings.word_embeddings.weight"
    rows = len(WORDS) + 128
    check_embeddings(plain, tokens, {"vocab_size": rows}, {name: np.zeros((rows, 2))})
    with pytest.raises(InputError, match="8 ids, the weights have 2000 embeddings"):
        check_embeddings(plain, tokens, {"vocab_size": 2000}, {name: np.zeros((2000, 2))})


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_numbers_are_refused(value: float, plain: Path) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    weights = safetensors.load_file(plain / "model.safetensors")
    weights["classifier.weight"][0, 3] = value
    safetensors.save_file(weights, plain / "model.safetensors")
    with pytest.raises(InputError, match=r"classifier\.weight has values that are not numbers"):
        CrossEncoder.open(plain)


def test_damaged_files_are_named(plain: Path) -> None:
    whole = (plain / "model.safetensors").read_bytes()
    (plain / "model.safetensors").write_bytes(whole[:1000])
    with pytest.raises(InputError, match=r"model\.safetensors cannot be read"):
        CrossEncoder.open(plain)
    (plain / "config.json").write_text("{")
    with pytest.raises(InputError, match=r"config\.json is not JSON"):
        CrossEncoder.open(plain)


def test_weights_that_the_config_does_not_describe(plain: Path) -> None:
    change(plain / "config.json", num_hidden_layers=3)
    with pytest.raises(InputError, match=r"no encoder\.layer\.2"):
        CrossEncoder.open(plain)


def test_a_base_is_a_folder_first(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no config\.json"):
        find_base(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    assert find_base(tmp_path) == tmp_path
    with pytest.raises(InputError, match="there is no folder"):
        find_base("./not/here")


def test_a_base_is_an_installed_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tmp_path / "some_model" / "model"
    model.mkdir(parents=True)
    (tmp_path / "some_model" / "__init__.py").write_text("")
    (model / "config.json").write_text("{}")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert find_base("some-model") == model


def test_known_weights_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tmp_path / KNOWN_MODELS[0].package / "model"
    model.mkdir(parents=True)
    (model.parent / "__init__.py").write_text("")
    (model / "config.json").write_text("{}")
    (model / "model.safetensors").write_bytes(b"something else")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(InputError, match="is not all-MiniLM-L6-v2: its weights have SHA-256"):
        find_base("sentence-transformers/all-MiniLM-L6-v2")


def test_offline_says_how_to_fetch_it_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(InputError, match="cannot be fetched from the hub") as caught:
        find_base("someone/some-model")
    assert "hf download someone/some-model --local-dir FOLDER" in caught.value.hint


def test_the_real_minilm_is_known(models: Path) -> None:
    assert identify(models / "minilm").name == "all-MiniLM-L6-v2"


@pytest.mark.parametrize("name", ["alignment", "alignment:"])
def test_alignment_without_vectors(name: str) -> None:
    with pytest.raises(InputError, match="alignment needs word vectors"):
        open_ranker(name, documents=[])
