"""What a model in training is to the scorers: its manifest, from a base and what a recipe says."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tamis.backends.protocols import Family
from tamis.backends.tokens import DEFAULT_LENGTH, Tokens, default_length
from tamis.errors import InputError
from tamis.models.model_kinds import architecture_of
from tamis.scorers.bi_encoder import length_of as text_length_of
from tamis.scorers.bi_encoder import pooling_of, prompts_of
from tamis.scorers.cross_encoder import check_length, scale_of
from tamis.scorers.model_manifest import Base, ModelManifest, find_model_manifest
from tamis.scorers.target_tokens import word_ids
from tamis.scorers.target_words import DEFAULT_TEMPLATE, length_of, positions_of, with_mask

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class BaseFolder:
    """A folder that training starts from, and what its model is called."""

    root: Path
    place: Path
    """Where in it the transformer lies."""
    config: Mapping[str, Any]
    tokens: Tokens
    base: Base

    @property
    def manifest(self) -> ModelManifest | None:
        """What tamis wrote of it, if it did."""
        return find_model_manifest(self.root)


def cross_encoder_manifest(
    folder: BaseFolder,
    longest: int,
    outputs: int,
    max_length: int | None,
    document_tokens: int | None,
) -> ModelManifest:
    """Of a cross-encoder with so many outputs."""
    manifest = folder.manifest
    default = min(DEFAULT_LENGTH, longest)
    length = _within(longest, max_length, folder) or (manifest.max_length if manifest else default)
    check_length(length, longest, folder.tokens.pair_layout().extra)
    return ModelManifest(
        "cross-encoder", length, scale_of(outputs, None), outputs, document_tokens,
        base=folder.base,
    )  # fmt: skip


def _within(longest: int, max_length: int | None, folder: BaseFolder) -> int | None:
    """The length that a recipe names, or all that the base takes where that is less."""
    if max_length is None or max_length <= longest:
        return max_length
    _log.warning(
        "%s takes %d tokens at most: texts are truncated there, not at %d",
        folder.root, longest, max_length,
    )  # fmt: skip
    return longest


def outputs_of(folder: BaseFolder, own: int, outputs: int | None, is_fresh: bool) -> int:
    """How many outputs: the given number, which must be the base's own if its head is kept."""
    if outputs not in (None, 1, 2) or (outputs is None and own > 2):
        raise InputError(f"a re-ranker cannot have {outputs or own} outputs", hint="say 1 or 2")
    if outputs and own and outputs != own and not is_fresh:
        raise InputError(
            f"{folder.root} has a head with {own} output{'s' * (own > 1)}, not {outputs}",
            hint=f"a recipe with {own}, or a fresh head: --set fresh_head=true",
        )
    return outputs or own or 1


def own_outputs(config: Mapping[str, Any]) -> int:
    """How many outputs the head of a folder has by its config; 0 where it has no head.

    >>> own_outputs({"architectures": ["AlbertModel"]})
    0
    >>> names = ["AlbertForSequenceClassification"]
    >>> own_outputs({"architectures": names, "id2label": {"0": "x"}}), own_outputs(
    ...     {"architectures": names})
    (1, 2)
    """
    if not architecture_of(config).endswith("ForSequenceClassification"):
        return 0
    labels = config.get("id2label")
    return int(config.get("num_labels") or (len(labels) if labels else 2))


def bi_encoder_manifest(folder: BaseFolder, longest: int, max_length: int | None) -> ModelManifest:
    """Of a bi-encoder, which reads queries and documents with the prompts of the base."""
    root, manifest = folder.root, folder.manifest
    if manifest and manifest.scorer != "bi-encoder":
        raise InputError(
            f"{root} is a {manifest.scorer}, not a bi-encoder",
            hint="train it by a recipe for that, or name a bi-encoder",
        )
    own = text_length_of(root, manifest) or default_length(folder.place, longest)
    length = _within(longest, max_length, folder) or own
    extra = folder.tokens.single_layout().extra
    if not extra < length <= longest:
        raise InputError(
            f"cannot truncate texts at {length} tokens",
            hint=f"this model takes {extra + 1} to {longest} tokens: --set max_length={longest}",
        )
    prompts = prompts_of(root)
    query, document = prompts if any(prompts) else (None, None)
    return ModelManifest(
        "bi-encoder", length, "cosine", pooling=pooling_of(root, manifest), query_prompt=query,
        document_prompt=document, base=folder.base,
    )  # fmt: skip


def target_words_manifest(
    folder: BaseFolder,
    family: Family,
    words: Sequence[str | int] | None,
    template: str | None,
    max_length: int | None,
) -> ModelManifest:
    """Of a language model with two words."""
    manifest, tokens = folder.manifest, folder.tokens
    target_words = words or (manifest.word_ids if manifest else None)
    if not target_words:
        raise InputError(
            f"{folder.root} names no target words", hint='give two, for example "true" "false"'
        )
    first, second = ids = word_ids(tokens, target_words)
    text = template or (manifest.template if manifest else None) or DEFAULT_TEMPLATE
    name = tokens.backend.id_to_token
    length = _within(positions_of(folder.config), max_length, folder)
    return ModelManifest(
        "target-words",
        length_of(folder.config, length or (manifest.max_length if manifest else None)),
        "probability",
        template=with_mask(text, folder.place, tokens) if family == "masked" else text,
        words=(name(first), name(second)),
        word_ids=ids,
        score="words",
        family=family,
        base=folder.base,
    )
