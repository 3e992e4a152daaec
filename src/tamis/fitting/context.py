"""What every step of a fit knows: the request, the data, the base model, the plan, the candidates.

Kinds of system are handed one of these and ask it for what they need.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tamis.backends import fast
from tamis.backends.onnx import export_file
from tamis.collection.base import Collection
from tamis.fitting.plan import Plan
from tamis.fitting.query_splits import QuerySplits, passages_for
from tamis.fitting.request import FitRequest
from tamis.fitting.workspace import Workspace
from tamis.models.folder import open_scorer, scorer_spec, torch_backend
from tamis.models.model_kinds import model_config
from tamis.models.scorer_specs import open_bi_encoder
from tamis.registry import Openers, Opening, open_stage
from tamis.scorers.bi_encoder import BiEncoder
from tamis.scorers.embedding_cache import EmbeddingCache
from tamis.scorers.model_manifest import ModelManifest
from tamis.search import Index
from tamis.search.cached_encoder import CachedEncoder, model_key, open_cached_encoder
from tamis.search.embeddings import for_documents
from tamis.types import Encoder, Queries, Scorer, Spec, Stage

if TYPE_CHECKING:
    from tamis.fitting.candidates import Retrieved


@dataclass(frozen=True, eq=False)
class BaseModel:
    """The model that training starts from, as a model folder of tamis."""

    folder: Path
    manifest: ModelManifest

    @property
    def kind(self) -> str:
        """What kind of scorer it is."""
        return self.manifest.scorer

    @property
    def has_own_forward(self) -> bool:
        """Whether a forward of our own runs it; others are not exported by a fit."""
        return fast.applies(self.manifest.scorer, model_config(self.folder))


@dataclass(frozen=True, eq=False)
class FitInputs:
    """What is known before anything is planned."""

    request: FitRequest
    work: Workspace
    collection: Collection
    index: Index
    splits: QuerySplits
    base: BaseModel | None
    why_no_base: str

    @property
    def passages(self) -> str:
        """How documents are split to be scored and encoded."""
        return self.request.passages or passages_for(self.index)

    @property
    def base_name(self) -> str:
        """What the base model is called, or why there is none."""
        if self.base is None:
            return self.why_no_base
        recorded = self.base.manifest.base
        return recorded.name if recorded else str(self.request.base)

    @property
    def query_sets(self) -> dict[str, Queries]:
        """The queries that documents are retrieved for, by what they are used for."""
        splits = self.splits
        return {
            "train": splits.queries_of(splits.train),
            "test": splits.queries_of(splits.test),
            "unanswerable train": splits.unanswerable[0],
            "unanswerable test": splits.unanswerable[1],
        }

    def with_test_sample(self, most: int) -> FitInputs:
        """The same with so many test queries at most."""
        return replace(self, splits=self.splits.with_test_sample(most, self.request.seed))

    @cached_property
    def embeddings(self) -> EmbeddingCaches:
        """The embeddings of texts that were made in this fit."""
        request = self.request
        return EmbeddingCaches(request.embedding_cache_folder, request.embedding_cache_size)

    def scorer_spec(self, model: Path) -> Spec:
        """The spec of a model of this fit: in ONNX Runtime where the fit exported it."""
        dtype = self.request.ranking_dtype
        if export_file(model, "onnx").is_file() and dtype == "float32":
            return scorer_spec(model, "onnx")
        return scorer_spec(model, torch_backend(model, self.request.device, dtype), dtype)

    def open_model(self, model: Path) -> Scorer:
        """A model of this fit in torch, on the device and in the precision of the fit."""
        request = self.request
        where = request.device, request.ranking_dtype
        return open_scorer(
            model, threads=request.threads, backend=torch_backend(model, *where),
            device=where[0], dtype=where[1],
        )  # fmt: skip

    @cached_property
    def base_scorer(self) -> Scorer:
        """The base model, opened; what it encodes is kept."""
        assert self.base is not None
        request, folder = self.request, self.base.folder
        opening = Opening(
            threads=request.threads, openers=self.embeddings.openers, device=request.device
        )
        backend = torch_backend(folder, request.device, request.ranking_dtype)
        return opening.scorer(scorer_spec(folder, backend, request.ranking_dtype))

    def open_stage(self, spec: Spec, openers: Openers) -> Stage:
        """A stage; bi-encoders in it share the embeddings of documents."""
        merged = {role: dict(kinds) for role, kinds in openers.items()}
        for role, kinds in self.embeddings.openers.items():
            merged.setdefault(role, {}).update(kinds)
        request = self.request
        return open_stage(spec, threads=request.threads, openers=merged, device=request.device)


@dataclass(frozen=True, eq=False)
class FitContext(FitInputs):
    """The same with the plan, and with the candidates that re-rankers score."""

    plan: Plan
    retrieved: Retrieved

    @classmethod
    def of(cls, inputs: FitInputs, plan: Plan, retrieved: Retrieved) -> FitContext:
        """The context of a fit that has retrieved its candidates."""
        input_fields = {field.name: getattr(inputs, field.name) for field in fields(FitInputs)}
        return cls(**input_fields, plan=plan, retrieved=retrieved)


class EmbeddingCaches:
    """Bi-encoders whose embeddings are kept, those of documents by the weights that make them.

    Models that only learnt to encode queries have the same document encoder and share its
    embeddings.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self.folder, self.max_bytes = folder, max_bytes
        self._documents: dict[str, EmbeddingCache] = {}
        self._on_disk: dict[str, CachedEncoder] = {}
        self.openers: Mapping[str, Mapping[str, Any]] = {"scorer": {"bi-encoder": self._open}}

    def on_disk(self, encoder: Encoder) -> CachedEncoder | None:
        """The encoder of documents with the embeddings on disk; None where none are to be kept."""
        if not self.max_bytes:
            return None
        key = model_key(for_documents(encoder))
        if key not in self._on_disk:
            cached = open_cached_encoder(encoder, self.folder, max_bytes=self.max_bytes)
            self._on_disk[key] = cached
        return self._on_disk[key]

    def flush(self) -> None:
        """Write to disk what was encoded."""
        for encoder in self._on_disk.values():
            encoder.flush()

    def _open(self, values: Spec, opening: Opening) -> EmbeddingCache:
        model = open_bi_encoder(values, opening)
        if model.documents is None:
            return self._shared(model)
        return EmbeddingCache(model, documents=self._shared(model.documents))

    def _shared(self, encoder: BiEncoder) -> EmbeddingCache:
        spec = encoder.spec()
        key = repr([spec.get(name) for name in ("weights", "settings", "backend", "dtype")])
        if key not in self._documents:
            self._documents[key] = EmbeddingCache(encoder, on_disk=self.on_disk(encoder))
        return self._documents[key]
