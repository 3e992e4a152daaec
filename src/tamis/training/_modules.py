"""The models being trained as torch modules: parameters under their Hugging Face names, run by the
same code as scoring.

Imported only where torch is known to be installed.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from tamis.errors import require
from tamis.models.model_import import import_model, tell_others
from tamis.scorers import _bert, _t5
from tamis.scorers._dropout import NONE, Dropout, generator_of
from tamis.scorers.bi_encoder import BiEncoder, TorchTexts, pooled
from tamis.scorers.cross_encoder import CrossEncoder, TorchPairs, head_of
from tamis.scorers.embedding_cache import EmbeddingCache
from tamis.scorers.model_manifest import find_model_manifest, write_model_manifest
from tamis.scorers.target_words import TargetWords
from tamis.scorers.template import Template
from tamis.scorers.tokens import Encoded, share
from tamis.scorers.weights import Loaded, Weights
from tamis.training._init_weights import Ready
from tamis.training.trainable import Tokenised
from tamis.types import Scorer
from tamis.types.pipeline import Scale

TOKENIZER = ("tokenizer*", "special_tokens_map.json", "added_tokens.json", "vocab.*", "merges.txt",
             "*.model")  # fmt: skip
"""The files a tokenizer consists of."""


DOCUMENTS = "documents"
"""The folder in a model's folder that has the model of documents."""
SHARPNESS = 20.0
"""What a cosine is multiplied by before a loss sees it, as sentence-transformers does: a softmax of
cosines alone could hardly tell them apart."""


class Module(nn.Module):
    """What all kinds of model share."""

    documents: EmbeddingCache | None = None

    def __init__(self, ready: Ready) -> None:
        super().__init__()
        self.note, self.rates, self.head_names = ready.note, ready.rates, ready.head_names
        self.loaded = replace(ready.loaded, weights={})
        for name, value in ready.loaded.weights.items():
            *path, last = name.split(".")
            module: nn.Module = self
            for part in path:
                if part not in module._modules:
                    module.add_module(part, nn.Module())
                module = module.get_submodule(part)
            module.register_parameter(last, nn.Parameter(value))

    def forward(self, sequences: Sequence[Tokenised], generator: Any = None) -> torch.Tensor:
        """A row of scores a sequence."""
        if self.training and generator is None:
            device = next(self.parameters()).device
            generator = generator_of(int(torch.randint(2**62, ())), device)
        order = np.argsort([len(sequence) for sequence in sequences], kind="stable")
        scores = self._scores([sequences[number] for number in order.tolist()], generator)
        return scores[torch.from_numpy(np.argsort(order))]

    def save(
        self, folder: Path, *, scale: Scale | None = None, facts: Mapping[str, Any] | None = None
    ) -> None:
        """Write a model folder; the tokenizer is the base's."""
        folder.mkdir(parents=True, exist_ok=True)
        note = replace(self.note, scale=scale or self.note.scale, facts=dict(facts or {}))
        for pattern in TOKENIZER:
            for file in sorted(self.loaded.folder.glob(pattern)):
                shutil.copy(file, folder / file.name)
        text = json.dumps(dict(self.loaded.config), indent=2, ensure_ascii=False)
        (folder / "config.json").write_text(text + "\n", "utf-8")
        write = require("safetensors.torch").save_file
        write(self._weights(), folder / "model.safetensors", metadata={"format": "pt"})
        tell_others(folder, note)
        write_model_manifest(folder, note)

    def _scores(self, sequences: list[Tokenised], generator: Any) -> torch.Tensor:
        raise NotImplementedError

    def _encoded(
        self, queries: Sequence[str], texts: Sequence[str], room: int
    ) -> Iterator[tuple[Encoded, Encoded]]:
        """Tokens of every query and its text; a query that comes again is split once."""
        tokens, names = self.loaded.tokens, list(dict.fromkeys(queries))
        known = dict(zip(names, tokens.encode(names, room), strict=True))
        for name, text in zip(queries, tokens.encode(texts, room), strict=True):
            yield known[name], text

    def _now(self) -> Loaded:
        """The folder with the parameters in place of its weights: gradients flow into them."""
        return replace(self.loaded, weights=dict(self.named_parameters()))

    def _weights(self) -> Weights:
        return {name: each.detach().cpu() for name, each in self.named_parameters()}

    def _dropout(self, hidden: float, generator: Any) -> Dropout:
        if not self.training:
            return NONE
        return Dropout(hidden, self.rates.attention, generator)


class PairModule(Module):
    """A cross-encoder in training."""

    def __init__(self, ready: Ready) -> None:
        super().__init__(ready)
        self.layout = self.loaded.tokens.pair_layout()

    def prepare(self, queries: Sequence[str], texts: Sequence[str]) -> list[Tokenised]:
        """The n-th query with the n-th text, as the scorer would read them."""
        room = self.note.max_length - self.layout.extra
        found = []
        for query, text in self._encoded(queries, texts, room):
            longest = min(text.length, self.note.document_tokens or room)
            of_query, of_text = share(query.length, longest, room)
            ids, segments = self.layout.join(query.ids[:of_query], text.ids[:of_text])
            truncated_tokens = query.length + text.length - of_query - of_text
            found.append(Tokenised(ids, segments, truncated_tokens))
        return found

    def scorer(self, *, threads: int | None = None) -> CrossEncoder:
        """A scorer with the weights as they are now."""
        now, note = replace(self.loaded, weights=self._weights()), self.note
        model = TorchPairs(_bert.build(now), head_of(now))
        tokens = self.loaded.tokens
        return CrossEncoder(
            model, tokens, self.layout, note.max_length, note.scale, threads,
            document_tokens=note.document_tokens,
        )  # fmt: skip

    def _scores(self, sequences: list[Tokenised], generator: Any) -> torch.Tensor:
        now = self._now()
        body = _bert.build(now, self._dropout(self.rates.hidden, generator))
        states = body.first_tokens(
            [sequence.ids for sequence in sequences], [sequence.segments for sequence in sequences]
        )
        last = self._dropout(self.rates.outputs, generator)
        if now.config["model_type"] != "bert":
            states = last.states(states)
        scores: torch.Tensor = head_of(now)(states, last)
        return scores


class TextModule(Module):
    """A bi-encoder in training: a score is a cosine times `SHARPNESS`."""

    def __init__(self, ready: Ready) -> None:
        super().__init__(ready)
        self.layout = self.loaded.tokens.single_layout()

    def prepare(self, queries: Sequence[str], texts: Sequence[str]) -> list[Tokenised]:
        """The n-th query and the n-th text end to end, told apart by their segments."""
        room = self.note.max_length - self.layout.extra
        found = []
        for query, text in self._encoded(queries, texts, room):
            parts = self._framed(query.ids[:room]), self._framed(text.ids[:room])
            segments = np.repeat(np.arange(2, dtype=np.int32), [len(part) for part in parts])
            truncated_tokens = max(0, query.length - room) + max(0, text.length - room)
            found.append(Tokenised(np.concatenate(parts), segments, truncated_tokens))
        return found

    def scorer(self, *, threads: int | None = None) -> Scorer:
        """A scorer with the weights as they are now."""
        return self._encoder(threads)

    def _encoder(self, threads: int | None) -> BiEncoder:
        now, note = replace(self.loaded, weights=self._weights()), self.note
        model, tokens = TorchTexts(_bert.build(now)), self.loaded.tokens
        pooling = note.pooling or "mean"
        return BiEncoder(model, tokens, self.layout, note.max_length, pooling, threads)

    def _scores(self, sequences: list[Tokenised], generator: Any) -> torch.Tensor:
        """Cosines; every text is run once, however many pairs it is in."""
        truncated_tokens = [int((sequence.segments == 0).sum()) for sequence in sequences]
        parts = [
            part
            for sequence, truncated_tokens in zip(sequences, truncated_tokens, strict=True)
            for part in (sequence.ids[:truncated_tokens], sequence.ids[truncated_tokens:])
        ]
        distinct = {part.tobytes(): part for part in parts}
        order = sorted(distinct, key=lambda name: len(distinct[name]))
        body = _bert.build(self._now(), self._dropout(self.rates.hidden, generator))
        vectors = pooled(body, [distinct[name] for name in order], self.note.pooling or "mean")
        rows = nn.functional.normalize(vectors, eps=1e-12)
        place = {name: number for number, name in enumerate(order)}
        which = torch.tensor([place[part.tobytes()] for part in parts], device=rows.device)
        query, text = rows[which[0::2]], rows[which[1::2]]
        return SHARPNESS * (query * text).sum(1, keepdim=True)

    def _framed(self, ids: Any) -> Any:
        around = self.layout.before, ids, self.layout.after
        return np.concatenate([np.asarray(part, np.int32) for part in around])


class QueryModule(TextModule):
    """A bi-encoder that learns to read queries: texts keep the vectors that the base gives them,
    each of which is made once.
    """

    def __init__(self, ready: Ready, source: Path, texts: EmbeddingCache) -> None:
        super().__init__(replace(ready, note=replace(ready.note, documents=DOCUMENTS)))
        self.source, self.documents, self._texts = source, texts, texts

    def prepare(self, queries: Sequence[str], texts: Sequence[str]) -> list[Tokenised]:
        """The tokens of the n-th query, and the vector of the n-th text."""
        room = self.note.max_length - self.layout.extra
        names = list(dict.fromkeys(queries))
        known = dict(zip(names, self.loaded.tokens.encode(names, room), strict=True))
        found = []
        for name, vector, truncated_tokens in zip(
            queries, *self._texts.encode_with_truncation(texts), strict=True
        ):
            ids, lost = self._framed(known[name].ids[:room]), max(0, known[name].length - room)
            found.append(Tokenised(ids, np.zeros_like(ids), int(truncated_tokens) + lost, vector))
        return found

    def scorer(self, *, threads: int | None = None) -> Scorer:
        """A scorer with the weights as they are now, which shares the vectors of texts."""
        own = replace(self._encoder(threads), documents=self._texts.model)
        return EmbeddingCache(own, documents=self._texts)

    def save(
        self, folder: Path, *, scale: Scale | None = None, facts: Mapping[str, Any] | None = None
    ) -> None:
        """Write a model folder, and in it the model of documents."""
        super().save(folder, scale=scale, facts=facts)
        if find_model_manifest(self.source):
            shutil.copytree(self.source, folder / DOCUMENTS)
        else:
            import_model(self.source, folder / DOCUMENTS, kind="bi-encoder")

    def _scores(self, sequences: list[Tokenised], generator: Any) -> torch.Tensor:
        """Cosines; every query is run once, however many texts it is set against."""
        distinct = {sequence.ids.tobytes(): sequence.ids for sequence in sequences}
        place = {name: number for number, name in enumerate(distinct)}
        body = _bert.build(self._now(), self._dropout(self.rates.hidden, generator))
        vectors = pooled(body, list(distinct.values()), self.note.pooling or "mean")
        rows = nn.functional.normalize(vectors, eps=1e-12)
        which = torch.tensor([place[each.ids.tobytes()] for each in sequences], device=rows.device)
        texts = torch.from_numpy(np.array([each.vector for each in sequences])).to(rows.device)
        return SHARPNESS * (rows[which] * texts).sum(1, keepdim=True)


class WordModule(Module):
    """A T5 in training, scored by two words or by all."""

    def __init__(self, ready: Ready, vocabulary: bool) -> None:
        super().__init__(ready)
        self.template = Template(self.note.template or "")
        self.word_ids = self.note.word_ids or (0, 0)
        self.asked = None if vocabulary else self.word_ids

    def prepare(self, queries: Sequence[str], texts: Sequence[str]) -> list[Tokenised]:
        """The n-th query with the n-th text, as the scorer would read them."""
        pairs = list(zip(queries, texts, strict=True))
        ids, truncated_tokens = self.template.encode(
            self.loaded.tokens, pairs, self.note.max_length
        )
        return [
            Tokenised(each, np.zeros_like(each), int(lost))
            for each, lost in zip(ids, truncated_tokens, strict=True)
        ]

    def scorer(self, *, threads: int | None = None) -> TargetWords:
        """A scorer with the weights as they are now."""
        now, length = replace(self.loaded, weights=self._weights()), self.note.max_length
        writer, tokens = _t5.build(now, length), self.loaded.tokens
        return TargetWords(
            writer, tokens, self.template, self.word_ids, length, "sequence-to-sequence",
            threads=threads,
        )  # fmt: skip

    def _scores(self, sequences: list[Tokenised], generator: Any) -> torch.Tensor:
        dropout = self._dropout(self.rates.hidden, generator)
        model = _t5.build(self._now(), len(sequences[-1]), dropout)
        logits: torch.Tensor = model.logits([each.ids for each in sequences], self.asked)
        return logits
