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

from tamis.backends import _t5, fast
from tamis.backends._dropout import NO_DROPOUT, Dropout, generator_of
from tamis.backends._heads import head_of
from tamis.backends.fast import FastBiEncoder, FastCrossEncoder, head_states, pool_tokens
from tamis.backends.tokens import Encoded, share_room
from tamis.backends.weights import Loaded, Weights
from tamis.errors import require
from tamis.models.model_import import import_model, write_sbert_config
from tamis.scorers.bi_encoder import BiEncoder
from tamis.scorers.cross_encoder import CrossEncoder
from tamis.scorers.embedding_cache import EmbeddingCache
from tamis.scorers.model_manifest import (
    copy_without_exports,
    find_model_manifest,
    write_model_manifest,
)
from tamis.scorers.target_words import TargetWords
from tamis.scorers.template import Template
from tamis.training._init_weights import InitialModel
from tamis.training.trainable import Tokenised
from tamis.types import Scorer
from tamis.types.pipeline import Scale

TOKENIZER_FILES = ("tokenizer*", "special_tokens_map.json", "added_tokens.json", "vocab.*",
                   "merges.txt", "*.model")  # fmt: skip


DOCUMENTS_FOLDER = "documents"
"""The folder inside a model folder with the model that encodes documents."""
COSINE_SCALE = 20.0
"""What a cosine is multiplied by before a loss sees it, as sentence-transformers does: a softmax of
cosines alone could hardly tell them apart."""


class Module(nn.Module):
    """What all kinds of model share."""

    documents: EmbeddingCache | None = None

    def __init__(self, initial: InitialModel) -> None:
        super().__init__()
        self.manifest, self.rates, self.head_names = (
            initial.manifest,
            initial.rates,
            initial.head_names,
        )
        self.loaded = replace(initial.loaded, weights={})
        for name, value in initial.loaded.weights.items():
            *path, last = name.split(".")
            module: nn.Module = self
            for name_part in path:
                if name_part not in module._modules:
                    module.add_module(name_part, nn.Module())
                module = module.get_submodule(name_part)
            module.register_parameter(last, nn.Parameter(value))

    def forward(self, sequences: Sequence[Tokenised], generator: Any = None) -> torch.Tensor:
        """One row of scores per sequence."""
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
        manifest = replace(
            self.manifest, scale=scale or self.manifest.scale, facts=dict(facts or {})
        )
        for pattern in TOKENIZER_FILES:
            for file in sorted(self.loaded.folder.glob(pattern)):
                shutil.copy(file, folder / file.name)
        text = json.dumps(dict(self.loaded.config), indent=2, ensure_ascii=False)
        (folder / "config.json").write_text(text + "\n", "utf-8")
        write = require("safetensors.torch").save_file
        write(self._weights(), folder / "model.safetensors", metadata={"format": "pt"})
        write_sbert_config(folder, manifest)
        write_model_manifest(folder, manifest)

    def _scores(self, sequences: list[Tokenised], generator: Any) -> torch.Tensor:
        raise NotImplementedError

    def _encode_pairs(
        self, queries: Sequence[str], texts: Sequence[str], room: int
    ) -> Iterator[tuple[Encoded, Encoded]]:
        """Tokens of every query and its text; a query that comes again is split once."""
        tokens, names = self.loaded.tokens, list(dict.fromkeys(queries))
        encoded = dict(zip(names, tokens.encode(names, room), strict=True))
        for name, text in zip(queries, tokens.encode(texts, room), strict=True):
            yield encoded[name], text

    def _current(self) -> Loaded:
        """The folder with the parameters in place of its weights: gradients flow into them."""
        return replace(self.loaded, weights=dict(self.named_parameters()))

    def _weights(self) -> Weights:
        return {name: parameter.detach().cpu() for name, parameter in self.named_parameters()}

    def _dropout(self, hidden: float, generator: Any) -> Dropout:
        if not self.training:
            return NO_DROPOUT
        return Dropout(hidden, self.rates.attention, generator)


class CrossEncoderModule(Module):
    """A cross-encoder in training."""

    def __init__(self, initial: InitialModel) -> None:
        super().__init__(initial)
        self.layout = self.loaded.tokens.pair_layout()

    def prepare(self, queries: Sequence[str], texts: Sequence[str]) -> list[Tokenised]:
        """The n-th query with the n-th text, as the scorer would read them."""
        room = self.manifest.max_length - self.layout.extra
        tokenised = []
        for query, text in self._encode_pairs(queries, texts, room):
            longest = min(text.length, self.manifest.document_tokens or room)
            of_query, of_text = share_room(query.length, longest, room)
            ids, segments = self.layout.join(query.ids[:of_query], text.ids[:of_text])
            truncated_tokens = query.length + text.length - of_query - of_text
            tokenised.append(Tokenised(ids, segments, truncated_tokens))
        return tokenised

    def scorer(self, *, threads: int | None = None) -> CrossEncoder:
        """A scorer with the weights as they are now."""
        current, manifest = replace(self.loaded, weights=self._weights()), self.manifest
        model = FastCrossEncoder(fast.build(current), head_of(current))
        tokens = self.loaded.tokens
        return CrossEncoder(
            model, tokens, self.layout, manifest.max_length, manifest.scale, threads,
            document_tokens=manifest.document_tokens,
        )  # fmt: skip

    def _scores(self, sequences: list[Tokenised], generator: Any) -> torch.Tensor:
        current = self._current()
        body = fast.build(current, self._dropout(self.rates.hidden, generator))
        head = head_of(current)
        ids = [sequence.ids for sequence in sequences]
        segments = [sequence.segments for sequence in sequences]
        states = head_states(body, head, ids, segments)
        scores: torch.Tensor = head(states, self._dropout(self.rates.outputs, generator))
        return scores


class BiEncoderModule(Module):
    """A bi-encoder in training: a score is a cosine times `COSINE_SCALE`."""

    def __init__(self, initial: InitialModel) -> None:
        super().__init__(initial)
        self.layout = self.loaded.tokens.single_layout()

    def prepare(self, queries: Sequence[str], texts: Sequence[str]) -> list[Tokenised]:
        """The n-th query and the n-th text end to end, told apart by their segments."""
        room = self.manifest.max_length - self.layout.extra
        tokenised = []
        for query, text in self._encode_pairs(queries, texts, room):
            sequences = (
                self._add_special_tokens(query.ids[:room]),
                self._add_special_tokens(text.ids[:room]),
            )
            segments = np.repeat(
                np.arange(2, dtype=np.int32), [len(sequence) for sequence in sequences]
            )
            truncated_tokens = max(0, query.length - room) + max(0, text.length - room)
            tokenised.append(Tokenised(np.concatenate(sequences), segments, truncated_tokens))
        return tokenised

    def scorer(self, *, threads: int | None = None) -> Scorer:
        """A scorer with the weights as they are now."""
        return self._encoder(threads)

    def _encoder(self, threads: int | None) -> BiEncoder:
        current, manifest = replace(self.loaded, weights=self._weights()), self.manifest
        model, tokens = FastBiEncoder(fast.build(current)), self.loaded.tokens
        pooling = manifest.pooling or "mean"
        return BiEncoder(model, tokens, self.layout, manifest.max_length, pooling, threads)

    def _scores(self, sequences: list[Tokenised], generator: Any) -> torch.Tensor:
        """Cosines; every text is run once, however many pairs it is in."""
        query_lengths = [int((sequence.segments == 0).sum()) for sequence in sequences]
        texts = [
            ids
            for sequence, length in zip(sequences, query_lengths, strict=True)
            for ids in (sequence.ids[:length], sequence.ids[length:])
        ]
        distinct = {ids.tobytes(): ids for ids in texts}
        order = sorted(distinct, key=lambda name: len(distinct[name]))
        body = fast.build(self._current(), self._dropout(self.rates.hidden, generator))
        embeddings = pool_tokens(
            body, [distinct[name] for name in order], self.manifest.pooling or "mean"
        )
        rows = nn.functional.normalize(embeddings, eps=1e-12)
        position = {name: number for number, name in enumerate(order)}
        row_numbers = torch.tensor([position[ids.tobytes()] for ids in texts], device=rows.device)
        query_rows, text_rows = rows[row_numbers[0::2]], rows[row_numbers[1::2]]
        return COSINE_SCALE * (query_rows * text_rows).sum(1, keepdim=True)

    def _add_special_tokens(self, ids: Any) -> Any:
        pieces = self.layout.before, ids, self.layout.after
        return np.concatenate([np.asarray(piece, np.int32) for piece in pieces])


class QueryEncoderModule(BiEncoderModule):
    """A bi-encoder that learns to read queries: texts keep the embeddings of the base
    model, each of which is made once.
    """

    def __init__(self, initial: InitialModel, source: Path, texts: EmbeddingCache) -> None:
        super().__init__(
            replace(initial, manifest=replace(initial.manifest, documents=DOCUMENTS_FOLDER))
        )
        self.source, self.documents, self._texts = source, texts, texts

    def prepare(self, queries: Sequence[str], texts: Sequence[str]) -> list[Tokenised]:
        """The tokens of the n-th query, and the embedding of the n-th text."""
        room = self.manifest.max_length - self.layout.extra
        names = list(dict.fromkeys(queries))
        encoded = dict(zip(names, self.loaded.tokens.encode(names, room), strict=True))
        tokenised = []
        for name, embedding, truncated_tokens in zip(
            queries, *self._texts.encode_with_truncation(texts), strict=True
        ):
            ids = self._add_special_tokens(encoded[name].ids[:room])
            lost = max(0, encoded[name].length - room)
            tokenised.append(
                Tokenised(ids, np.zeros_like(ids), int(truncated_tokens) + lost, embedding)
            )
        return tokenised

    def scorer(self, *, threads: int | None = None) -> Scorer:
        """A scorer with the weights as they are now, which shares the embeddings of texts."""
        own = replace(self._encoder(threads), open_documents=lambda: self._texts.model)
        return EmbeddingCache(own, documents=self._texts)

    def save(
        self, folder: Path, *, scale: Scale | None = None, facts: Mapping[str, Any] | None = None
    ) -> None:
        """Write a model folder, and in it the model of documents."""
        super().save(folder, scale=scale, facts=facts)
        if find_model_manifest(self.source):
            copy_without_exports(self.source, folder / DOCUMENTS_FOLDER)
        else:
            import_model(self.source, folder / DOCUMENTS_FOLDER, kind="bi-encoder")

    def _scores(self, sequences: list[Tokenised], generator: Any) -> torch.Tensor:
        """Cosines; every query is run once, however many texts it is set against."""
        distinct = {sequence.ids.tobytes(): sequence.ids for sequence in sequences}
        place = {name: number for number, name in enumerate(distinct)}
        body = fast.build(self._current(), self._dropout(self.rates.hidden, generator))
        embeddings = pool_tokens(body, list(distinct.values()), self.manifest.pooling or "mean")
        rows = nn.functional.normalize(embeddings, eps=1e-12)
        which = torch.tensor(
            [place[sequence.ids.tobytes()] for sequence in sequences], device=rows.device
        )
        texts = torch.from_numpy(np.array([sequence.embedding for sequence in sequences])).to(
            rows.device
        )
        return COSINE_SCALE * (rows[which] * texts).sum(1, keepdim=True)


class Seq2SeqModule(Module):
    """A T5 in training, scored by two words or by all."""

    def __init__(self, initial: InitialModel, vocabulary: bool) -> None:
        super().__init__(initial)
        self.template = Template(self.manifest.template or "")
        self.word_ids = self.manifest.word_ids or (0, 0)
        self.output_ids = None if vocabulary else self.word_ids

    def prepare(self, queries: Sequence[str], texts: Sequence[str]) -> list[Tokenised]:
        """The n-th query with the n-th text, as the scorer would read them."""
        pairs = list(zip(queries, texts, strict=True))
        ids, truncated_tokens = self.template.encode(
            self.loaded.tokens, pairs, self.manifest.max_length
        )
        return [
            Tokenised(sequence, np.zeros_like(sequence), int(lost))
            for sequence, lost in zip(ids, truncated_tokens, strict=True)
        ]

    def scorer(self, *, threads: int | None = None) -> TargetWords:
        """A scorer with the weights as they are now."""
        current, length = replace(self.loaded, weights=self._weights()), self.manifest.max_length
        language_model, tokens = _t5.build(current, length), self.loaded.tokens
        return TargetWords(
            language_model, tokens, self.template, self.word_ids, length, "sequence-to-sequence",
            threads=threads,
        )  # fmt: skip

    def _scores(self, sequences: list[Tokenised], generator: Any) -> torch.Tensor:
        dropout = self._dropout(self.rates.hidden, generator)
        model = _t5.build(self._current(), len(sequences[-1]), dropout)
        logits: torch.Tensor = model.logits(
            [sequence.ids for sequence in sequences], self.output_ids
        )
        return logits
