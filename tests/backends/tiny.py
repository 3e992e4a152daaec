"""Tiny random models of every architecture, from transformers' own configs and tokenizers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tamis.types import Pairs

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
transformers: Any = pytest.importorskip("transformers", reason="transformers is not installed")
tokenizers: Any = pytest.importorskip("tokenizers", reason="tokenizers is not installed")

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = "a drum sieve is or net grain rivers flow to the sea and how does it work".split()
MORE = "query passage : Query Document Relevant true false yes no . ?".split()
VOCABULARY = {word: number for number, word in enumerate([*SPECIAL, *WORDS, *MORE])}
SIZE = len(VOCABULARY)
LENGTH = 64
IDS = {"vocab_size": SIZE, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
BODY = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2,
        "intermediate_size": 32, "max_position_embeddings": LENGTH}  # fmt: skip
T5 = {"d_model": 24, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2,
      "decoder_start_token_id": 0, "relative_attention_max_distance": 16,
      "relative_attention_num_buckets": 8}  # fmt: skip
DECODER = {**BODY, "num_key_value_heads": 2, "head_dim": 12}
CONFIGS: Mapping[str, dict[str, Any]] = {
    "bert": BODY,
    "roberta": BODY,
    "xlm-roberta": BODY,
    "camembert": BODY,
    "distilbert": {"dim": 24, "n_layers": 2, "n_heads": 2, "hidden_dim": 32,
                   "max_position_embeddings": LENGTH},
    "albert": {**BODY, "embedding_size": 16},
    "electra": {**BODY, "embedding_size": 16},
    "mpnet": BODY,
    "deberta-v2": {**BODY, "relative_attention": True, "position_buckets": 8,
                   "pos_att_type": ["p2c", "c2p"], "position_biased_input": False,
                   "max_relative_positions": -1, "type_vocab_size": 0},
    "modernbert": {**BODY, "global_attn_every_n_layers": 2, "local_attention": 8,
                   "cls_token_id": 2, "sep_token_id": 3},
    "t5": T5,
    "bart": {"d_model": 24, "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 32,
             "decoder_ffn_dim": 32, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
             "max_position_embeddings": LENGTH, "decoder_start_token_id": 3},
    "qwen2": {**DECODER, "max_position_embeddings": 4 * LENGTH},
    "qwen3": DECODER,
    "llama": DECODER,
    "gpt2": {"n_embd": 24, "n_layer": 2, "n_head": 2, "n_positions": 4 * LENGTH},
    "gemma": DECODER,
    "phi": DECODER,
    "opt": {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "ffn_dim": 32,
            "word_embed_proj_dim": 24, "max_position_embeddings": LENGTH},
    "longformer": {**BODY, "attention_window": 8, "type_vocab_size": 1},
    "big_bird": BODY,
    "convbert": {**BODY, "embedding_size": 24, "head_ratio": 2, "conv_kernel_size": 3},
    "mobilebert": {**BODY, "embedding_size": 24, "intra_bottleneck_size": 12,
                   "true_hidden_size": 12},
    "nomic_bert": {**BODY, "head_dim": 12},
    "gte": {**BODY, "type_vocab_size": 2},
}  # fmt: skip
SEGMENTED = ("bert", "electra", "convbert", "mobilebert", "nomic_bert", "gte")
BYTE_PAIRS = {"gpt2": "GPT2Tokenizer", "qwen2": "Qwen2Tokenizer"}
QUERIES = ["how does a drum sieve work", "grain", "the sea ?"]
TEXTS = ["a drum sieve is a net .", "rivers flow " * 9, "grain or sea", "net", "how " * 25]
EVERY = Pairs(QUERIES, TEXTS, np.indices((3, 5), np.int32).reshape(2, -1).T)


def tokenizer(architecture: str = "", **more: Any) -> Any:
    """Words to ids, with special tokens around them as BERT has them: by BERT's own class, which
    gives segments, where an architecture is told them. GPT-2 and Qwen2 have their own, without
    special tokens.
    """
    if architecture in SEGMENTED:
        return transformers.BertTokenizer(
            vocab=VOCABULARY, do_lower_case=False, model_max_length=LENGTH - 4
        )
    if architecture in BYTE_PAIRS:
        return byte_pairs(BYTE_PAIRS[architecture])
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(VOCABULARY, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    made.add_special_tokens(SPECIAL)
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )  # fmt: skip
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]",
             "sep_token": "[SEP]", "mask_token": "[MASK]"}  # fmt: skip
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, **{**names, "model_max_length": LENGTH - 4, **more}
    )


def byte_pairs(name: str) -> Any:
    """The tokenizer of GPT-2 or Qwen2: the ids of `VOCABULARY`, then letters and parts of words."""
    vocabulary, merges = dict(VOCABULARY), []
    for word in [*WORDS, *MORE]:
        for text in ("\u0120" + word, word):
            for end in range(1, len(text)):
                if text[: end + 1] not in vocabulary or end == len(text) - 1:
                    merges.append((text[:end], text[end]))
                for part in (text[:end], text[end], text[: end + 1]):
                    vocabulary.setdefault(part, len(vocabulary))
    return getattr(transformers, name)(
        vocab=vocabulary, merges=list(dict.fromkeys(merges)), pad_token="[PAD]",
        unk_token="[UNK]", bos_token="[CLS]", eos_token="[SEP]", model_max_length=4 * LENGTH,
    )  # fmt: skip


def save(folder: Path, architecture: str, auto: str, *, seed: int = 0, **more: Any) -> Path:
    """A model of this architecture with weights that are large enough to tell texts apart."""
    torch.manual_seed(seed)
    names = CONFIGS[architecture]
    own = tokenizer(architecture)
    ids = {**IDS, "vocab_size": max(own.get_vocab().values()) + 1}
    config = transformers.AutoConfig.for_model(architecture, **{**ids, **names, **more})
    model = getattr(transformers, auto).from_config(config)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight), alpha=0.2)
    model.save_pretrained(folder)
    own.save_pretrained(folder)
    return folder


def cross_encoder(folder: Path, architecture: str, outputs: int = 1, **more: Any) -> Path:
    auto = "AutoModelForSequenceClassification"
    return save(folder, architecture, auto, num_labels=outputs, **more)


def change_json(path: Path, **values: Any) -> None:
    old = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    path.write_text(json.dumps({**old, **values}), "utf-8")


def pairs_of(pairs: Pairs) -> list[tuple[str, str]]:
    return [(pairs.queries[q], pairs.texts[t]) for q, t in pairs.index.tolist()]
