"""DistilBERT in torch without padding: BERT with fewer layers, other names and no segments."""

from __future__ import annotations

from tamis.backends._bert import Bert, Names, Shape, build_named
from tamis.backends._dropout import NO_DROPOUT, Dropout
from tamis.backends.weights import Loaded

NAMES = Names(
    segments=None,
    layer="transformer.layer",
    qkv=("attention.q_lin", "attention.k_lin", "attention.v_lin"),
    attn_out="attention.out_lin",
    attn_norm="sa_layer_norm",
    intermediate="ffn.lin1",
    output="ffn.lin2",
    output_norm="output_layer_norm",
)
EPSILON = 1e-12


def build(loaded: Loaded, dropout: Dropout = NO_DROPOUT) -> Bert:
    """The body of a DistilBERT model from its folder.

    Positions that are sines lie among its weights, like learnt ones.
    """
    config = loaded.config
    shape = Shape(config["n_layers"], config["n_heads"], EPSILON, config.get("activation", "gelu"))
    return build_named(loaded, NAMES, shape, dropout)
