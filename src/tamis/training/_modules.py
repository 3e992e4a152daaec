"""The models being trained, by kind: texts to tokens, tokens to scores, and the folder they become.

Imported only where torch is known to be installed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from tamis.backends._dropout import generator_of
from tamis.backends.protocols import Backend, Family
from tamis.backends.tokens import Encoded, TokenIds, share_room
from tamis.models.model_import import import_model, write_default_prompt, write_sbert_config
from tamis.scorers.bi_encoder import BiEncoder
from tamis.scorers.cross_encoder import CrossEncoder
from tamis.scorers.embedding_cache import EmbeddingCache
from tamis.scorers.model_manifest import (
    ModelManifest,
    copy_without_exports,
    find_model_manifest,
    write_model_manifest,
)
from tamis.scorers.sbert_layout import EncoderLayout
from tamis.scorers.target_words import TargetWords
from tamis.scorers.template import Template
from tamis.training._embedding_layers import EmbeddingLayers
from tamis.training._networks import TrainedNetwork, copy_tokenizer
from tamis.training.precision import Precision
from tamis.training.trainable import Tokenised
from tamis.types import Scorer
from tamis.types.pipeline import Scale

DOCUMENTS_FOLDER = "documents"
"""The folder inside a model folder with the model that encodes documents."""
COSINE_SCALE = 20.0
"""What a cosine is multiplied by before a loss sees it, as sentence-transformers does: a softmax of
cosines alone could hardly tell them apart."""


class Module:
    """What all kinds of model share."""

    documents: EmbeddingCache | None = None

    def __init__(
        self, network: TrainedNetwork, manifest: ModelManifest, head_names: frozenset[str]
    ) -> None:
        self.network, self.manifest, self.head_names = network, manifest, head_names
        self.tokens = network.tokens
        self.parts: tuple[nn.Module, ...] = (network.module,)
        """What holds parameters."""
        self.train()

    @property
    def is_parallel(self) -> bool:
        """Whether micro-batches may run side by side."""
        return self.network.is_parallel

    @property
    def precision(self) -> Precision:
        """Where and how its forward is run."""
        return self.network.precision

    @property
    def backend(self) -> Backend:
        """What runs it."""
        return self.network.runtime.backend

    @property
    def training(self) -> bool:
        """Whether dropout is on."""
        return self.network.module.training

    @property
    def device(self) -> torch.device:
        """Where its parameters are."""
        return next(self.parameters()).device

    def __call__(self, sequences: Sequence[Tokenised], generator: Any = None) -> torch.Tensor:
        """One row of scores per sequence."""
        if self.training and generator is None:
            generator = generator_of(int(torch.randint(2**62, ())), self.device)
        order = np.argsort([len(sequence) for sequence in sequences], kind="stable")
        scores = self._scores([sequences[number] for number in order.tolist()], generator)
        return scores[torch.from_numpy(np.argsort(order)).to(scores.device)]

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """What is learnt, by name."""
        named = chain.from_iterable(part.named_parameters() for part in self.parts)
        return ((name, parameter) for name, parameter in named if parameter.requires_grad)

    def parameters(self) -> Iterator[nn.Parameter]:
        """What is learnt."""
        return (parameter for _, parameter in self.named_parameters())

    def state_dict(self) -> dict[str, torch.Tensor]:
        """The weights by name."""
        return {name: value for part in self.parts for name, value in part.state_dict().items()}

    def train(self, mode: bool = True) -> Module:
        """Let dropout be on, or off."""
        for part in self.parts:
            part.train(mode)
        return self

    def save(
        self, folder: Path, *, scale: Scale | None = None, facts: Mapping[str, Any] | None = None
    ) -> None:
        """Write a model folder; the tokenizer is the base's."""
        folder.mkdir(parents=True, exist_ok=True)
        manifest = replace(
            self.manifest, scale=scale or self.manifest.scale, facts=dict(facts or {})
        )
        copy_tokenizer(self.network.folder, folder)
        self.network.save(folder)
        self._save_more(folder, manifest)
        write_sbert_config(folder, manifest)
        write_model_manifest(folder, manifest)

    def restore(self, folder: Path) -> None:
        """Take the weights of a folder that was saved."""
        self.network.restore(folder)

    def _save_more(self, folder: Path, manifest: ModelManifest) -> None:
        """Write what is not in the folder of a transformer."""

    def _scores(self, sequences: list[Tokenised], generator: Any) -> torch.Tensor:
        raise NotImplementedError

    def _encode(self, texts: Sequence[str], room: int, prompt: str = "") -> dict[str, Encoded]:
        """The tokens of texts with a prompt before each; one that comes again is split once."""
        names = list(dict.fromkeys(texts))
        encoded = self.tokens.encode([prompt + name for name in names], room)
        return dict(zip(names, encoded, strict=True))


class CrossEncoderModule(Module):
    """A cross-encoder in training."""

    def __init__(
        self,
        network: TrainedNetwork,
        manifest: ModelManifest,
        head_names: frozenset[str],
        prompt: str = "",
    ) -> None:
        super().__init__(network, manifest, head_names)
        self.layout, self.prompt = self.tokens.pair_layout(), prompt

    def prepare(self, queries: Sequence[str], texts: Sequence[str]) -> list[Tokenised]:
        """The n-th query with the n-th text, as the scorer would read them."""
        room = self.manifest.max_length - self.layout.extra
        tokenised = []
        by_query = self._encode(queries, room, self.prompt)
        for name, text in zip(queries, self.tokens.encode(texts, room), strict=True):
            query = by_query[name]
            longest = min(text.length, self.manifest.document_tokens or room)
            of_query, of_text = share_room(query.length, longest, room)
            ids, segments = self.layout.join(query.ids[:of_query], text.ids[:of_text])
            truncated_tokens = query.length + text.length - of_query - of_text
            tokenised.append(Tokenised(ids, segments, truncated_tokens))
        return tokenised

    def _save_more(self, folder: Path, manifest: ModelManifest) -> None:
        if self.prompt:
            write_default_prompt(folder, self.prompt)

    def scorer(self, *, threads: int | None = None) -> CrossEncoder:
        """A scorer with the weights as they are now."""
        self.train(False)
        manifest = self.manifest
        return CrossEncoder(
            self.network.model(manifest.max_length), self.tokens, self.layout,
            manifest.max_length, manifest.scale, threads,
            document_tokens=manifest.document_tokens, prompt=self.prompt,
            runtime=self.network.runtime,
        )  # fmt: skip

    def _scores(self, sequences: list[Tokenised], generator: Any) -> torch.Tensor:
        ids = [sequence.ids for sequence in sequences]
        segments = [sequence.segments for sequence in sequences]
        logits: torch.Tensor = self.network.logits(ids, segments, generator)
        return logits


class BiEncoderModule(Module):
    """A bi-encoder in training: a score is a cosine times `COSINE_SCALE`."""

    def __init__(
        self, network: TrainedNetwork, manifest: ModelManifest, layout: EncoderLayout
    ) -> None:
        super().__init__(network, manifest, frozenset())
        self.layers = EmbeddingLayers(layout)
        self.parts = (network.module, self.layers.to(self.device))
        self.layout, self.sbert = self.tokens.single_layout(), layout
        self.prompts = manifest.query_prompt or "", manifest.document_prompt or ""
        self.skipped = self._skipped(self.prompts[0]), self._skipped(self.prompts[1])
        self.train()

    def prepare(self, queries: Sequence[str], texts: Sequence[str]) -> list[Tokenised]:
        """The n-th query and the n-th text end to end, told apart by their segments."""
        room = self.manifest.max_length - self.layout.extra
        by_query = self._encode(queries, room, self.prompts[0])
        by_text = self._encode(texts, room, self.prompts[1])
        tokenised = []
        for name, text_name in zip(queries, texts, strict=True):
            query, text = by_query[name], by_text[text_name]
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

    def restore(self, folder: Path) -> None:
        """Take the weights of a folder that was saved."""
        super().restore(folder)
        self.layers.restore(folder)

    def _save_more(self, folder: Path, manifest: ModelManifest) -> None:
        width = self.network.model(manifest.max_length).dimensions
        self.layers.save(folder, manifest, width)

    def _encoder(self, threads: int | None) -> BiEncoder:
        self.train(False)
        manifest = self.manifest
        return BiEncoder(
            self.network.model(manifest.max_length), self.tokens, self.layout,
            manifest.max_length, manifest.pooling or "mean", threads,
            prompt=self.prompts[0], document_prompt=self.prompts[1],
            include_prompt=self.sbert.include_prompt, layers=self.layers.as_scored(),
            truncate_dim=self.sbert.truncate_dim, runtime=self.network.runtime,
        )  # fmt: skip

    def _scores(self, sequences: list[Tokenised], generator: Any) -> torch.Tensor:
        """Cosines; every text is run once, however many pairs it is in."""
        lengths = [int((sequence.segments == 0).sum()) for sequence in sequences]
        both = list(zip(sequences, lengths, strict=True))
        asked, told = [s.ids[:n] for s, n in both], [s.ids[n:] for s, n in both]
        if self.skipped[0] == self.skipped[1]:  # all in one forward
            rows, place = self._embed([*asked, *told], self.skipped[0], generator)
            queries, texts = rows[place[: len(asked)]], rows[place[len(asked) :]]
        else:
            rows, place = self._embed(asked, self.skipped[0], generator)
            other_rows, other_place = self._embed(told, self.skipped[1], generator)
            queries, texts = rows[place], other_rows[other_place]
        return COSINE_SCALE * (queries * texts).sum(1, keepdim=True)

    def _embed(
        self, sequences: Sequence[TokenIds], skip: int, generator: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The embeddings of distinct sequences, shortest first, and which is that of each."""
        distinct = {ids.tobytes(): ids for ids in sequences}
        order = sorted(distinct, key=lambda name: len(distinct[name]))
        pooling = self.manifest.pooling or "mean"
        full = [distinct[name] for name in order if len(distinct[name])]
        pooled = self._pooled(full, pooling, skip, generator)
        if len(full) < len(order):  # a text without a token is the shortest
            pooled = torch.cat([pooled.new_zeros(1, pooled.shape[1]), pooled])
        position = {name: number for number, name in enumerate(order)}
        places = torch.tensor([position[ids.tobytes()] for ids in sequences], device=pooled.device)
        return self.layers(pooled), places

    def _pooled(
        self, sequences: Sequence[TokenIds], pooling: str, skip: int, generator: Any
    ) -> torch.Tensor:
        if sequences:
            pooled: torch.Tensor = self.network.embeddings(sequences, pooling, skip, generator)
            return pooled
        width = self.network.model(self.manifest.max_length).dimensions
        return torch.zeros(0, width * len(pooling.split("+")), device=self.device)

    def _skipped(self, prompt: str) -> int:
        """How many tokens at the start of a text with this prompt are not pooled."""
        if self.sbert.include_prompt or not prompt:
            return 0
        return len(self.layout.before) + self.tokens.encode([prompt], 0)[0].length

    def _add_special_tokens(self, ids: Any) -> Any:
        pieces = self.layout.before, ids, self.layout.after
        return np.concatenate([np.asarray(piece, np.int32) for piece in pieces])


class QueryEncoderModule(BiEncoderModule):
    """A bi-encoder that learns to read queries: texts keep the embeddings of the base
    model, each of which is made once.
    """

    def __init__(
        self,
        network: TrainedNetwork,
        manifest: ModelManifest,
        layout: EncoderLayout,
        source: Path,
        texts: EmbeddingCache,
    ) -> None:
        super().__init__(network, replace(manifest, documents=DOCUMENTS_FOLDER), layout)
        self.source, self.documents, self._texts = source, texts, texts

    def prepare(self, queries: Sequence[str], texts: Sequence[str]) -> list[Tokenised]:
        """The tokens of the n-th query, and the embedding of the n-th text."""
        room = self.manifest.max_length - self.layout.extra
        encoded = self._encode(queries, room, self.prompts[0])
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
        ids = [sequence.ids for sequence in sequences]
        queries, query = self._embed(ids, self.skipped[0], generator)
        texts = torch.from_numpy(np.array([sequence.embedding for sequence in sequences]))
        return COSINE_SCALE * (queries[query] * texts.to(queries.device)).sum(1, keepdim=True)


class TargetWordsModule(Module):
    """A language model in training, scored by two words or by all."""

    def __init__(
        self,
        network: TrainedNetwork,
        manifest: ModelManifest,
        head_names: frozenset[str],
        vocabulary: bool,
    ) -> None:
        super().__init__(network, manifest, head_names)
        self.template = Template(self.manifest.template or "")
        self.word_ids = self.manifest.word_ids or (0, 0)
        self.output_ids = None if vocabulary else self.word_ids

    def prepare(self, queries: Sequence[str], texts: Sequence[str]) -> list[Tokenised]:
        """The n-th query with the n-th text, as the scorer would read them."""
        pairs = list(zip(queries, texts, strict=True))
        ids, truncated_tokens = self.template.encode(self.tokens, pairs, self.manifest.max_length)
        return [
            Tokenised(sequence, np.zeros_like(sequence), int(lost))
            for sequence, lost in zip(ids, truncated_tokens, strict=True)
        ]

    def scorer(self, *, threads: int | None = None) -> TargetWords:
        """A scorer with the weights as they are now."""
        self.train(False)
        length, family = self.manifest.max_length, cast(Family, self.manifest.family)
        return TargetWords(
            self.network.model(length), self.tokens, self.template, self.word_ids, length, family,
            threads=threads, runtime=self.network.runtime,
        )  # fmt: skip

    def _scores(self, sequences: list[Tokenised], generator: Any) -> torch.Tensor:
        ids = [sequence.ids for sequence in sequences]
        logits: torch.Tensor = self.network.next_token(ids, self.output_ids, generator)
        return logits
