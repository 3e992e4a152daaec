"""A cross-encoder reads query and text together and says how well they go with each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.backends.batches import (
    TOKENS_PER_BATCH,
    Numbers,
    Rows,
    probability,
    run_batches,
    tokens_per_batch,
)
from tamis.backends.choice import FAST, Runtime, choose_runtime, open_in_precision
from tamis.backends.memory import check_memory
from tamis.backends.onnx import OnnxCrossEncoder, Session
from tamis.backends.protocols import Backend, CrossEncoderModel
from tamis.backends.tokens import (
    Layout,
    TokenIds,
    Tokens,
    check_truncation_side,
    default_length,
    share_room,
)
from tamis.backends.weights import load, open_tokens, read_config
from tamis.errors import InputError, command
from tamis.scorers.embedding_layers import ACTIVATIONS
from tamis.scorers.in_torch import open_in_torch
from tamis.scorers.model_manifest import manifest_for
from tamis.scorers.modular_heads import is_modular, open_modular
from tamis.scorers.origin import Origin, model_spec
from tamis.scorers.sbert_layout import (
    activation_of,
    prompt_of_pairs,
    transformer_folder,
)
from tamis.scorers.tokenized import TokenizedPairs, score_in_chunks
from tamis.types import Pairs, Scores, Spec
from tamis.types.pipeline import Scale

SCALES: Mapping[str, Scale] = {"Identity": "logit", "Sigmoid": "probability"}
"""What one output is under an activation; under another it is a regression."""
SHARES = ("Identity", "Softmax")
"""Activations under which the score of two outputs, or of more, is a share in their softmax."""


@dataclass(frozen=True, eq=False)
class CrossEncoder:
    """A model for sequence classification with one output (a logit, or the probability that its
    activation makes of it) or two (the probability of the second class).
    """

    model: CrossEncoderModel
    tokens: Tokens
    layout: Layout
    max_length: int
    scale: Scale
    threads: int | None = None
    budget: int = TOKENS_PER_BATCH
    document_tokens: int | None = None
    """The length at which the text alone is truncated, before the pair is."""
    origin: Origin | None = None
    prompt: str = ""
    """What stands before every query."""
    output: int | None = None
    """Of more than two outputs, the one that says relevant: its share in the softmax is the score.
    """
    activation: str | None = None
    """What is taken of the output, where that is neither the logit nor a probability by `scale`."""
    runtime: Runtime = FAST

    @classmethod
    def open(
        cls,
        folder: str | Path,
        *,
        max_length: int | None = None,
        scale: Scale | None = None,
        output: str | int | None = None,
        threads: int | None = None,
        backend: Backend | None = None,
        device: str = "auto",
        dtype: str = "auto",
        trust_remote_code: bool = False,
    ) -> CrossEncoder:
        """The cross-encoder in a folder: any Hugging Face folder for sequence classification.

        What is not given is read from `tamis.json`; without one, pairs are truncated at 512 tokens
        or at as many as the tokenizer says, one output is what the activation named in the folder
        makes of it (its sigmoid where none is named), and two are a probability: their softmax, or
        what an activation that is named makes of the second. Of more than two the label or the
        number of the one that says relevant must be named by `output`.
        """
        path = Path(folder)
        manifest = manifest_for(path, "cross-encoder")
        place = transformer_folder(path)
        config = read_config(place)
        modular = is_modular(path)
        runtime = choose_runtime(
            "cross-encoder", config, place, backend or ("transformers" if modular else None),
            device, dtype, trust_remote_code,
        )  # fmt: skip
        open_it = partial(open_modular, path) if modular else partial(_open, place)
        (model, tokens), runtime = open_in_precision(open_it, runtime, dtype)
        check_truncation_side(place)
        layout = tokens.pair_layout()
        length = max_length or (
            manifest.max_length if manifest else default_length(place, model.longest)
        )
        check_length(length, model.longest, layout.extra)
        outputs = model.outputs
        if manifest:
            activation, said = manifest.activation, manifest.scale
        else:
            activation, said = activation_and_scale(path, config, outputs, is_free=scale is None)
        said = scale or said
        activation = activation if scale is None else None
        own_output = manifest.output if manifest else None
        return cls(
            model, tokens, layout, length, said if activation else scale_of(outputs, said),
            threads,
            tokens_per_batch(runtime.device),
            document_tokens=manifest.document_tokens if manifest else None,
            origin=Origin.of(
                "cross-encoder", path, runtime.backend, runtime.dtype, max_length=max_length,
                scale=scale, output=output,
            ),
            prompt=prompt_of_pairs(path),
            output=output_of(path, config, outputs, own_output if output is None else output),
            activation=activation,
            runtime=runtime,
        )  # fmt: skip

    def spec(self) -> Spec:
        """Plain JSON from which the model can be opened again."""
        return model_spec(self.origin, self)

    @cached_property
    def in_torch(self) -> CrossEncoder | None:
        """The same model by torch, which has gradients; None where that is not there."""
        return open_in_torch(self) if self.runtime.is_onnx else self

    @property
    def outputs(self) -> int:
        """How many values the model gives per pair."""
        return self.model.outputs

    def score(self, pairs: Pairs) -> Scores:
        """One value per pair, and how many of its tokens were truncated."""
        return score_in_chunks(self, pairs)

    def tokenize(self, pairs: Pairs) -> TokenizedPairs:
        """See `TokenScorer.tokenize`."""
        extra = self.layout.extra
        room = self.max_length - extra
        queries = self.tokens.encode([self.prompt + query for query in pairs.queries], room)
        texts = self.tokens.encode(pairs.texts, room)
        index: list[tuple[int, int]] = pairs.index.tolist()
        longest = self.document_tokens or room
        kept_lengths = [
            share_room(queries[q].length, min(texts[t].length, longest), room) for q, t in index
        ]
        full_lengths = np.array([queries[q].length + texts[t].length for q, t in index], np.int64)
        lengths = np.array([of_query + of_text for of_query, of_text in kept_lengths], np.int64)

        items = [
            (queries[q].ids[:of_query], texts[t].ids[:of_text])
            for (q, t), (of_query, of_text) in zip(index, kept_lengths, strict=True)
        ]
        truncated_tokens = (full_lengths - lengths).astype(np.int32)
        return TokenizedPairs(items, lengths + extra, truncated_tokens)

    def score_tokenized(self, items: Sequence[tuple[TokenIds, TokenIds]]) -> NDArray[np.float32]:
        """See `TokenScorer.score_tokenized`."""

        def forward(batch: Numbers) -> Rows:
            joined_pairs = [self.layout.join(*items[n]) for n in batch.tolist()]
            ids, segments = zip(*joined_pairs, strict=True)
            return self._values(self.model.logits(ids, segments))

        lengths = [len(query) + len(text) + self.layout.extra for query, text in items]
        threads = self.threads if self.runtime.device == "cpu" else 1
        rows = run_batches(forward, lengths, budget=self.budget, threads=threads)
        values: NDArray[np.float32] = rows[:, 0]
        return values

    def _values(self, logits: Rows) -> Rows:
        if self.activation is not None:
            column = self.output if self.output is not None else logits.shape[1] - 1
            return ACTIVATIONS[self.activation](logits[:, column : column + 1])
        if self.output is not None:
            return _share(logits, self.output)
        if logits.shape[1] == 2:
            return probability(logits[:, 1:] - logits[:, :1])
        return probability(logits) if self.scale == "probability" else logits


def _share(logits: Rows, output: int) -> Rows:
    """The softmax of one output."""
    powers = np.exp(logits - logits.max(1, keepdims=True))
    share: Rows = (powers[:, output] / powers.sum(1))[:, None]
    return share


def _open(folder: Path, runtime: Runtime) -> tuple[CrossEncoderModel, Tokens]:
    if runtime.is_onnx:
        session = Session.open(folder, runtime.backend, "cross-encoder")
        return OnnxCrossEncoder(session), open_tokens(folder, read_config(folder))
    if runtime.backend == "transformers":
        from tamis.backends.transformers import open_cross_encoder

        opened = open_cross_encoder(
            folder, runtime.device, runtime.dtype, runtime.trust_remote_code
        )
        return opened, opened.network.tokens
    from tamis.backends._heads import head_of
    from tamis.backends.fast import FastCrossEncoder, build

    check_memory(folder, runtime.dtype, runtime.device)
    loaded = load(folder)
    return FastCrossEncoder(build(loaded), head_of(loaded)), loaded.tokens


def output_of(
    folder: Path, config: Mapping[str, Any], outputs: int, output: str | int | None
) -> int | None:
    """Which of more than two outputs says relevant; None where there are one or two."""
    labels = {str(name): int(number) for name, number in (config.get("label2id") or {}).items()}
    number = labels.get(output) if isinstance(output, str) else output
    if outputs <= 2 and output is None:
        return None
    if number is None or not 0 <= number < outputs:
        names = list(labels) or [str(number) for number in range(outputs)]
        raise InputError(
            f"{folder} has {outputs} outputs; a re-ranker has one or two, or says which it reads",
            hint=f"say which of {', '.join(names)} means relevant, and use the new folder, such as "
            f"{_import_command(folder, '--output-label', names[-1])}",
        )
    return number if outputs > 1 else None


def activation_and_scale(
    folder: Path, config: Mapping[str, Any], outputs: int, *, is_free: bool = True
) -> tuple[str | None, Scale]:
    """The activation that a folder names, where its scores are neither logits nor a softmax or
    sigmoid that `scale` says, and what the scores are. Without one the sigmoid of one output is
    taken, as by sentence-transformers, and of several a softmax. `is_free`: nobody said the scale.
    """
    path = activation_of(folder, config) or ""
    default = "Sigmoid" if outputs == 1 else "Identity"
    name = path.rpartition(".")[2] or default
    if outputs == 1 and name in SCALES:
        return None, SCALES[name]
    if outputs > 1 and name in SHARES:
        return None, "probability"
    if is_free and not (path.startswith("torch.") and name in ACTIVATIONS):
        raise InputError(
            f"{folder} names the activation {path}, which tamis does not run",
            hint="say what its output is, and use the new folder: "
            + _import_command(folder, "--scale", "logit" if outputs == 1 else "probability"),
        )
    return name, SCALES.get(name, "regression")


def _import_command(folder: Path, *options: str) -> str:
    """How a folder is copied with what is said of it."""
    new = f"{folder.resolve().name}-imported"
    return command("import-model", folder, "-o", new, *options)


def check_length(length: int, longest: int, extra: int) -> None:
    """Refuse a length that leaves no room for two texts or that the model does not have."""
    if not extra + 2 <= length <= longest:
        raise InputError(
            f"cannot truncate pairs at {length} tokens",
            hint=f"this model takes {extra + 2} to {longest} tokens: say so by max_length",
        )


def scale_of(outputs: int, scale: Scale | None) -> Scale:
    """The scale of a model with so many outputs: the given one, where that is possible."""
    default: Scale = "logit" if outputs == 1 else "probability"
    if scale == "cosine" or (outputs > 1 and scale not in (None, "probability")):
        raise InputError(
            f"{outputs} outputs of a cross-encoder cannot be a {scale}",
            hint=f"say {default}",
        )
    return scale or default
