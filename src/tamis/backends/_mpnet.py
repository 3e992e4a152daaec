"""MPNet in torch without padding: BERT without segments, and with a bias by distance that all
layers share.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tamis.backends._bert import Bert, Names, build_named, shape_of
from tamis.backends._dropout import NO_DROPOUT, Dropout
from tamis.backends.weights import Loaded

NAMES = Names(
    segments=None,
    qkv=("attention.attn.q", "attention.attn.k", "attention.attn.v"),
    attn_out="attention.attn.o",
    attn_norm="attention.LayerNorm",
    distances="encoder.relative_attention_bias.weight",
)
FIRST_POSITION = 2
BUCKETS = 32
"""How many rows a bias by distance has: transformers computes with so many, whatever a config says.
"""


def has_known_buckets(config: Mapping[str, Any]) -> bool:
    """Whether a model's bias by distance has the rows that transformers reads."""
    return bool(config.get("relative_attention_num_buckets", BUCKETS) == BUCKETS)


def build(loaded: Loaded, dropout: Dropout = NO_DROPOUT) -> Bert:
    """The body of an MPNet model from its folder."""
    return build_named(loaded, NAMES, shape_of(loaded.config, FIRST_POSITION), dropout)
