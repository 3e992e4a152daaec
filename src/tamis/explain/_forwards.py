"""Attention from the scorers' own forwards, and from transformers.

The forwards keep no attention: here each layer's is worked out from the states that go into it.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.backends._bert import Bert
from tamis.backends._layers import rows
from tamis.backends._t5 import T5
from tamis.backends.network import quiet_transformers
from tamis.errors import require
from tamis.scorers.sbert_layout import transformer_folder

TokenIds = NDArray[np.int32]
LayerRows = NDArray[np.float32]
"""A row a layer, a column a token: the attention to it, summed over heads."""


def bert_attention(body: Bert, ids: TokenIds, segments: TokenIds) -> LayerRows:
    """The first token's attention in every layer, by our own forward."""
    torch = require("torch")
    lengths = [(1, len(ids))]
    with torch.inference_mode():
        states = body._embed([ids], [segments])
        attention = []
        for layer in body.layers:
            query, key, _ = layer.qkv(states).view(len(ids), 3, body.heads, -1).unbind(1)
            scores = torch.einsum("hd,nhd->hn", query[0], key) * query.shape[-1] ** -0.5
            attention.append(scores.softmax(-1).sum(0))
            states = body._run((layer,), states, lengths)
        values: LayerRows = torch.stack(attention).numpy()
    return values


@dataclass(frozen=True, eq=False)
class EagerModel:
    """A model of transformers that gives its attention."""

    model: Any

    @classmethod
    def open(cls, folder: str | Path) -> EagerModel:
        """The body of the model in a folder."""
        torch, transformers = require("torch"), require("transformers")
        with quiet_transformers():
            model = transformers.AutoModel.from_pretrained(
                transformer_folder(Path(folder)), local_files_only=True,
                attn_implementation="eager", dtype=torch.float32,
            )  # fmt: skip
        return cls(model.eval())

    def attention(
        self, sequences: Sequence[TokenIds], segments: Sequence[TokenIds]
    ) -> list[LayerRows]:
        """The first token's attention in every layer, of one padded batch."""
        torch = require("torch")
        width = max(map(len, sequences))
        ids = np.full((len(sequences), width), self.model.config.pad_token_id or 0, np.int64)
        types, mask = np.zeros_like(ids), np.zeros_like(ids)
        for n, (sequence, segment) in enumerate(zip(sequences, segments, strict=True)):
            ids[n, : len(sequence)], types[n, : len(sequence)] = sequence, segment
            mask[n, : len(sequence)] = 1
        values = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
        names = inspect.signature(self.model.forward).parameters
        inputs = {name: torch.from_numpy(of) for name, of in values.items() if name in names}
        with torch.inference_mode():
            output = self.model(**inputs, output_attentions=True)
        rows = torch.stack(output.attentions)[:, :, :, 0].sum(2).numpy()  # layers, batch, tokens
        return [rows[:, n, : len(sequence)] for n, sequence in enumerate(sequences)]


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
