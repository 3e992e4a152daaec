"""Attention and gradients from the scorers' own forwards, and attention from transformers.

The forwards keep no attention: here each layer's is worked out from the states that go into it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tamis.backends._bert import Bert
from tamis.backends._heads import Head
from tamis.backends._layers import rows
from tamis.backends._t5 import T5
from tamis.backends.weights import Tensor
from tamis.errors import require

TokenIds = NDArray[np.int32]
LayerRows = NDArray[np.float32]
"""A row a layer, a column a token: the attention to it, summed over heads."""


def bert_attention(body: Bert, ids: TokenIds, segments: TokenIds) -> LayerRows:
    """The first token's attention in every layer, by our own forward."""
    torch = require("torch")
    lengths = [(1, len(ids))]
    with torch.inference_mode():
        states, bias = body._embed([ids], [segments]), body._bias(lengths)
        attention = []
        for layer in body.layers:
            query, key, _ = layer.qkv(states).view(len(ids), 3, body.heads, -1).unbind(1)
            scores = torch.einsum("hd,nhd->hn", query[0], key) * query.shape[-1] ** -0.5
            scores = scores if bias is None else scores + bias[:, 0]
            attention.append(scores.softmax(-1).sum(0))
            states = body._run((layer,), states, lengths, bias)
        values: LayerRows = torch.stack(attention).numpy()
    return values


def eager_attention(
    folder: str | Path, sequences: Sequence[TokenIds], segments: Sequence[TokenIds]
) -> list[LayerRows]:
    """The first token's attention in every layer, by transformers, in one padded batch."""
    torch, transformers = require("torch"), require("transformers")
    model = transformers.AutoModel.from_pretrained(
        folder, local_files_only=True, attn_implementation="eager", dtype=torch.float32
    ).eval()
    width = max(map(len, sequences))
    padding = model.config.pad_token_id or 0
    ids = np.full((len(sequences), width), padding, np.int64)
    types, mask = np.zeros_like(ids), np.zeros_like(ids)
    for n, (sequence, segment) in enumerate(zip(sequences, segments, strict=True)):
        ids[n, : len(sequence)], types[n, : len(sequence)] = sequence, segment
        mask[n, : len(sequence)] = 1
    inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
    with torch.inference_mode():
        output = model(
            **{name: torch.from_numpy(values) for name, values in inputs.items()},
            output_attentions=True,
        )
    attention = torch.stack(output.attentions)[:, :, :, 0].sum(2).numpy()  # layers, batch, tokens
    return [attention[:, n, : len(sequence)] for n, sequence in enumerate(sequences)]


def t5_attention(model: T5, ids: TokenIds) -> LayerRows:
    """What the first decoder step attends to in the text, in every decoder layer, by our own
    forward.
    """
    torch = require("torch")
    lengths = [(1, len(ids))]
    with torch.inference_mode():
        texts = model._encode([ids], lengths)
        states = rows(model.word_emb, torch.tensor([model.start_token]))
        attention = []
        for block in model.decoder:
            own = model._norm(block.norm, states) @ block.value.T
            states = model._add(states, own, block.attn_out)
            normed = model._norm(block.text_norm, states)
            query = (normed @ block.text_query.T).view(model.heads, -1)
            key = (texts @ block.text_key.T).view(len(ids), model.heads, -1)
            attention.append(torch.einsum("hd,nhd->hn", query, key).softmax(-1).sum(0))
            attended = model._attend_to_text(block, normed, texts, lengths)
            states = model._feed(block.feed, model._add(states, attended, block.text_attn_out))
        values: LayerRows = torch.stack(attention).numpy()
    return values


def cross_encoder_gradient(
    body: Bert, head: Head, ids: TokenIds, segments: TokenIds
) -> NDArray[np.float32]:
    """Gradient times input of each token: the input is what goes into the first layer, the score
    the logit (of two, how far the second lies above the first).
    """
    inputs, states = _states(body, ids, segments)
    logits = head(states[:1])[0]
    score = logits[0] if len(logits) == 1 else logits[1] - logits[0]
    return _times_input(score, inputs)


def bi_encoder_gradient(
    body: Bert, ids: TokenIds, query: NDArray[np.float32], pooling: str
) -> NDArray[np.float32]:
    """Gradient times input of each token of a text: the score is its cosine with a query."""
    torch = require("torch")
    inputs, states = _states(body, ids, np.zeros(len(ids), np.int32))
    pooled = states[0] if pooling == "cls" else states.mean(0)
    score = (pooled / pooled.norm()) @ torch.from_numpy(query)
    return _times_input(score, inputs)


def _states(body: Bert, ids: TokenIds, segments: TokenIds) -> tuple[Tensor, Tensor]:
    """What goes into the first layer of one sequence, and what comes out of the last."""
    with require("torch").no_grad():
        inputs = body._embed([ids], [segments])
    inputs = inputs.detach().clone().requires_grad_()
    lengths = [(1, len(ids))]
    return inputs, body._run(body.layers, inputs, lengths, body._bias(lengths))


def _times_input(score: Tensor, inputs: Tensor) -> NDArray[np.float32]:
    (gradient,) = require("torch").autograd.grad(score, inputs)
    values: NDArray[np.float32] = (gradient * inputs).sum(-1).detach().numpy()
    return values
