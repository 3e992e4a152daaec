"""Models of made-up weights that explanations look into."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def tiny_t5(tmp_path_factory: pytest.TempPathFactory, tiny_cross_encoder: Path) -> Iterator[Path]:
    """A T5 with the vocabulary of the tiny cross-encoder."""
    import shutil

    import torch

    transformers = pytest.importorskip("transformers")
    torch.manual_seed(1)
    config = transformers.T5Config(
        vocab_size=13, d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=2, num_decoder_layers=3,
        decoder_start_token_id=0, pad_token_id=0, eos_token_id=3, initializer_factor=2.0,
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("t5") / "t5"
    transformers.T5ForConditionalGeneration(config).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tiny_cross_encoder / name, folder / name)
    yield folder
