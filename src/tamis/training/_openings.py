"""A base opened as a model in training: by our own forward, or by transformers.

Imported only where torch is known to be installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tamis.backends.choice import Runtime
from tamis.backends.fresh_weights import FreshWeights, Start, open_to_train
from tamis.backends.network import check_precision, longest_of, open_tokens
from tamis.backends.protocols import Family, Kind
from tamis.backends.transformers import ENCODER_ONLY, LANGUAGE_MODELS, start_token
from tamis.backends.weights import load, read_config
from tamis.errors import InputError
from tamis.scorers.embedding_cache import EmbeddingCache
from tamis.scorers.model_manifest import ModelManifest
from tamis.scorers.sbert_layout import encoder_layout, prompt_of_pairs, transformer_folder
from tamis.scorers.target_words import family_of, mask_of
from tamis.training._init_weights import (
    InitialModel,
    TrainingStart,
    base_of,
    init_bi_encoder,
    init_cross_encoder,
    init_target_words,
    plain_config,
)
from tamis.training._manifests import (
    BaseFolder,
    bi_encoder_manifest,
    cross_encoder_manifest,
    outputs_of,
    own_outputs,
    target_words_manifest,
)
from tamis.training._modules import (
    BiEncoderModule,
    CrossEncoderModule,
    QueryEncoderModule,
    TargetWordsModule,
)
from tamis.training._networks import (
    FastNetwork,
    TrainedNetwork,
    TransformersNetwork,
    enable_gradient_checkpointing,
)
from tamis.training.precision import Precision

CLASSIFIER, ENCODER = "AutoModelForSequenceClassification", "AutoModel"


@dataclass(frozen=True, eq=False)
class Opening:
    """A base, what runs it, and how training starts from it."""

    root: Path
    kind: Kind
    runtime: Runtime
    gradient_checkpointing: bool
    dropout: float | None
    fresh_head: bool
    random_weights: bool
    seed: int

    @property
    def is_fast(self) -> bool:
        """Whether our own forward runs it."""
        return self.runtime.backend == "fast"

    def cross_encoder(
        self, outputs: int | None, max_length: int | None, document_tokens: int | None
    ) -> CrossEncoderModule:
        """A cross-encoder to train."""
        prompt = self._prompt_of_pairs()
        if self.is_fast:
            initial = init_cross_encoder(self._start(document_tokens), outputs, max_length)
            return CrossEncoderModule(
                self._fast(initial), initial.manifest, initial.head_names, prompt
            )
        folder = self._folder()
        is_fresh = self.fresh_head or self.random_weights
        count = outputs_of(folder, own_outputs(folder.config), outputs, is_fresh)
        start = self._open(CLASSIFIER, outputs=count)
        manifest = cross_encoder_manifest(
            folder, longest_of(start.network.model), count, max_length, document_tokens
        )
        network = self._network(start, folder, CLASSIFIER, outputs=count)
        return CrossEncoderModule(network, manifest, start.head_names, prompt)

    def bi_encoder(self, max_length: int | None) -> BiEncoderModule:
        """A bi-encoder to train."""
        network, manifest = self._encoder(max_length)
        return BiEncoderModule(network, manifest, encoder_layout(self.root, "query"))

    def query_encoder(
        self, max_length: int | None, source: Path, texts: EmbeddingCache
    ) -> QueryEncoderModule:
        """A bi-encoder that learns to read queries."""
        network, manifest = self._encoder(max_length)
        layout = encoder_layout(self.root, "query")
        return QueryEncoderModule(network, manifest, layout, source, texts)

    def target_words(
        self,
        words: Sequence[str | int] | None,
        template: str | None,
        max_length: int | None,
        vocabulary: bool,
    ) -> TargetWordsModule:
        """A language model to train."""
        if self.is_fast:
            initial = init_target_words(self._start(None), words, template, max_length)
            return TargetWordsModule(
                self._fast(initial), initial.manifest, initial.head_names, vocabulary
            )
        if self.fresh_head:
            raise InputError(
                f"fresh rows for the two words are for a T5 that our own forward runs, not for "
                f"{self.root}",
                hint="leave fresh_head out",
            )
        folder = self._folder()
        own = folder.manifest.family if folder.manifest else None
        family = family_of(folder.place, folder.config, own)
        manifest = target_words_manifest(folder, family, words, template, max_length)
        name = LANGUAGE_MODELS[family]
        start = self._open(name, family)
        special = self._special(folder, family, start)
        network = self._network(start, folder, name, family=family, special=special)
        return TargetWordsModule(network, manifest, frozenset(), vocabulary)

    def _prompt_of_pairs(self) -> str:
        """What stands before a query where the base reads pairs already."""
        reads_pairs = own_outputs(read_config(transformer_folder(self.root))) > 0
        return prompt_of_pairs(self.root) if reads_pairs else ""

    def _encoder(self, max_length: int | None) -> tuple[TrainedNetwork, ModelManifest]:
        if self.is_fast:
            initial = init_bi_encoder(self._start(None), max_length)
            return self._fast(initial), initial.manifest
        folder = self._folder()
        name = ENCODER_ONLY.get(folder.config["model_type"], ENCODER)
        start = self._open(name)
        manifest = bi_encoder_manifest(folder, longest_of(start.network.model), max_length)
        return self._network(start, folder, name), manifest

    def _special(self, folder: BaseFolder, family: Family, start: Start) -> int:
        """The mask, or the token that starts the answer."""
        if family == "masked":
            mask = mask_of(folder.place, folder.tokens)
            return int(folder.tokens.backend.token_to_id(mask))
        if family == "sequence-to-sequence":
            return start_token(start.network.model.config, folder.place)
        return 0

    def _folder(self) -> BaseFolder:
        place = transformer_folder(self.root)
        base = base_of(self.root, random_weights=self.random_weights)
        tokens = open_tokens(place, self.runtime.trust_remote_code)
        return BaseFolder(self.root, place, read_config(place), tokens, base)

    def _start(self, document_tokens: int | None) -> TrainingStart:
        return TrainingStart(
            self.root, load(transformer_folder(self.root)), self.dropout, document_tokens,
            self.fresh_head, self.random_weights, self.seed,
        )  # fmt: skip

    def _fast(self, initial: InitialModel) -> FastNetwork:
        return FastNetwork(self.kind, initial.loaded, initial.rates)

    def _open(
        self, auto_class: str, family: Family | None = None, *, outputs: int | None = None
    ) -> Start:
        fresh = FreshWeights(outputs, self.dropout, self.fresh_head, self.random_weights, self.seed)
        place = transformer_folder(self.root)
        start = open_to_train(
            place, auto_class, self.runtime.device, self.runtime.trust_remote_code, self.kind,
            fresh, family,
        )  # fmt: skip
        if self.gradient_checkpointing:
            if not getattr(start.network.model, "supports_gradient_checkpointing", False):
                raise InputError(
                    f"{self.root} does not support gradient checkpointing",
                    hint="leave it out; a smaller max_length or list_size needs less memory too",
                )
            enable_gradient_checkpointing(start.network)
        return start

    def _network(
        self, start: Start, folder: BaseFolder, auto_class: str, *, outputs: int | None = None,
        **more: Any,
    ) -> TransformersNetwork:  # fmt: skip
        architecture = type(start.network.model).__name__
        config = plain_config(folder.config, architecture, outputs)
        precision = Precision.of(self.runtime.device, self.runtime.dtype)
        writes = self.kind == "target-words" and start.network.model.config.is_encoder_decoder
        with precision.autocast():
            check_precision(self.root, start.network, self.runtime.dtype, writes)
        runtime = Runtime(
            "transformers", self.runtime.device, "float32", self.runtime.trust_remote_code
        )
        return TransformersNetwork(
            self.kind, folder.place, folder.tokens, start, config, runtime, precision,
            auto_class=auto_class, **more,
        )  # fmt: skip
