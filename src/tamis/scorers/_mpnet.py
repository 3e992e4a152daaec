"""MPNet in torch without padding: BERT without segments, and with a bias by distance that all
layers share.
"""

from __future__ import annotations

from tamis.scorers._bert import Bert, Names, build_named, shape_of
from tamis.scorers._dropout import NO_DROPOUT, Dropout
from tamis.scorers.weights import Loaded

NAMES = Names(
    segments=None,
    qkv=("attention.attn.q", "attention.attn.k", "attention.attn.v"),
    attn_out="attention.attn.o",
    attn_norm="attention.LayerNorm",
    distances="encoder.relative_attention_bias.weight",
)
FIRST_POSITION = 2


def build(loaded: Loaded, dropout: Dropout = NO_DROPOUT) -> Bert:
    """The body of an MPNet model from its folder."""
    return build_named(loaded, NAMES, shape_of(loaded.config, FIRST_POSITION), dropout)
