"""What tests share: where real data and weights lie, if anywhere, and a tiny model."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from numba.core import event

from tamis._jit import COMPILATION

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"sieve drum net grain flour fish a the sort".split()]


def folder_of(variable: str, what: str) -> Path:
    if not os.environ.get(variable):
        pytest.skip(f"{variable} is not set: it names the folder of {what}")
    return Path(os.environ[variable])


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests remember in a folder of their own which weights were verified."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        patch.setattr("tamis.backends.weight_digests.cache_folder", lambda: folder)
        yield


@pytest.fixture(scope="session", autouse=True)
def no_word_of_compiling() -> Iterator[None]:
    """What a verb prints does not depend on which kernels are on disk already."""
    event.unregister("numba:compile", COMPILATION)  # type: ignore[no-untyped-call]
    yield
    event.register("numba:compile", COMPILATION)  # type: ignore[no-untyped-call]


@pytest.fixture(autouse=True)
def no_process_for_the_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fit measures the cost of a query in a new process: once, where that is tested."""
    monkeypatch.setattr(
        "tamis.fitting.sieve_folder.measure_query_cost", lambda sieve, queries, threads: None
    )


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real collections."""
    return folder_of("TAMIS_DATA", "collections to test with")


@pytest.fixture(scope="session")
def models() -> Path:
    """The folder of pretrained weights."""
    return folder_of("TAMIS_MODELS", "pretrained weights")


@pytest.fixture(scope="session")
def tiny_cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Hugging Face folder of a cross-encoder with one output, a logit, that takes 24 tokens."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    torch.manual_seed(0)
    numbers = {word: number for number, word in enumerate(WORDS)}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(numbers, unk_token="[UNK]"))
    made.normalizer = tokenizers.normalizers.Lowercase()
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    config = transformers.BertConfig(
        vocab_size=len(WORDS), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=24, max_position_embeddings=24, num_labels=1, initializer_range=0.5,
        sentence_transformers={"activation_fn": "torch.nn.modules.linear.Identity"},
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("models") / "tiny"
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]",
        unk_token="[UNK]", model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    ).save_pretrained(folder)  # fmt: skip
    return folder
