"""Relevance as a language model's choice between two words, from one decoding step.

T5 runs without padding in tamis's own code; other sequence-to-sequence, causal and masked models
run in transformers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tamis.backends import _t5
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
from tamis.backends.onnx import OnnxLanguageModel, Session
from tamis.backends.protocols import FAMILIES, Backend, Family, LanguageModel
from tamis.backends.tokens import DEFAULT_LENGTH, TokenIds, Tokens, read_json
from tamis.backends.transformers import open_language_model
from tamis.backends.weights import load, open_tokens, read_config
from tamis.errors import InputError
from tamis.scorers.in_torch import open_in_torch
from tamis.scorers.model_manifest import manifest_for
from tamis.scorers.origin import Origin, model_spec
from tamis.scorers.target_tokens import word_ids
from tamis.scorers.template import Template
from tamis.scorers.tokenized import TokenizedPairs, score_in_chunks
from tamis.types import Pairs, Scores, Spec
from tamis.types.pipeline import Scale

DEFAULT_TEMPLATE = "Query: {query} Document: {document} Relevant:"
MAX_T5_TOKENS = 4096
"""T5 knows distances, not positions, so this bounds only the table of distances."""
Score = Literal["words", "logit", "vocabulary"]
SCORES: tuple[Score, ...] = ("words", "logit", "vocabulary")


@dataclass(frozen=True, eq=False)
class TargetWords:
    """A language model as a scorer: how much rather it writes one word than another.

    `score="words"` is the method: the softmax over the two words' logits. `"logit"` (the first
    word's logit) and `"vocabulary"` (its softmax over all tokens) are there to compare with.
    """

    language_model: LanguageModel
    tokens: Tokens
    template: Template
    ids: tuple[int, int]
    max_length: int
    family: Family
    how: Score = "words"
    threads: int | None = None
    budget: int = TOKENS_PER_BATCH
    origin: Origin | None = None
    runtime: Runtime = FAST

    @classmethod
    def open(
        cls,
        folder: str | Path,
        words: Sequence[str | int] | None = None,
        *,
        score: Score | None = None,
        template: str | None = None,
        max_length: int | None = None,
        family: Family | None = None,
        threads: int | None = None,
        backend: Backend | None = None,
        device: str = "auto",
        dtype: str = "auto",
        trust_remote_code: bool = False,
    ) -> TargetWords:
        """The language model in a folder with two words: relevant, not relevant.

        What is not given is read from `tamis.json`. The family is read from config.json.
        """
        path = Path(folder)
        manifest = manifest_for(path, "target-words")
        target_words = words or (manifest.word_ids if manifest else None)
        if not target_words:
            raise InputError(
                f"{folder} names no target words", hint='give two, for example "true" and "false"'
            )
        config = read_config(path)
        runtime = choose_runtime(
            "target-words", config, path, backend, device, dtype, trust_remote_code
        )
        kind = family_of(path, config, family or (manifest.family if manifest else None))
        if runtime.backend == "fast" and kind != "sequence-to-sequence":
            runtime = replace(runtime, backend="transformers")
        length = length_of(config, max_length or (manifest.max_length if manifest else None))
        text = template or (manifest.template if manifest else None) or DEFAULT_TEMPLATE
        (language_model, tokens), runtime = open_in_precision(
            lambda chosen: _open(path, chosen, kind, length), runtime, dtype
        )
        return cls(
            language_model,
            tokens,
            Template(with_mask(text, path, tokens) if kind == "masked" else text),
            word_ids(tokens, target_words),
            length,
            kind,
            _score(score or (manifest.score if manifest else None) or "words"),
            threads,
            tokens_per_batch(runtime.device),
            origin=Origin.of(
                "target-words", path, runtime.backend, runtime.dtype,
                words=list(words) if words else None, score=score, template=template,
                max_length=max_length, family=family,
            ),
            runtime=runtime,
        )  # fmt: skip

    def spec(self) -> Spec:
        """Plain JSON from which the model can be opened again."""
        return model_spec(self.origin, self)

    @cached_property
    def in_torch(self) -> TargetWords | None:
        """The same model by torch, which has gradients; None where that is not there."""
        return open_in_torch(self) if self.runtime.is_onnx else self

    @property
    def scale(self) -> Scale:
        """A probability, or the bare logit."""
        return "logit" if self.how == "logit" else "probability"

    def score(self, pairs: Pairs) -> Scores:
        """One value per pair, and how many of its tokens were truncated."""
        return score_in_chunks(self, pairs)

    def tokenize(self, pairs: Pairs) -> TokenizedPairs:
        """See `TokenScorer.tokenize`."""
        texts = [(pairs.queries[q], pairs.texts[t]) for q, t in pairs.index.tolist()]
        sequences, truncated_tokens = self.template.encode(self.tokens, texts, self.max_length)
        lengths = np.array([len(sequence) for sequence in sequences], np.int64)
        return TokenizedPairs(sequences, lengths, np.array(truncated_tokens, np.int32))

    def score_tokenized(self, items: Sequence[TokenIds]) -> NDArray[np.float32]:
        """See `TokenScorer.score_tokenized`."""

        def forward(batch: Numbers) -> Rows:
            return self._values([items[number] for number in batch.tolist()])

        lengths = [len(sequence) for sequence in items]
        threads = self.threads if self.runtime.device == "cpu" else 1
        rows = run_batches(forward, lengths, budget=self.budget, threads=threads)
        values: NDArray[np.float32] = rows[:, 0]
        return values

    def _values(self, sequences: Sequence[TokenIds]) -> Rows:
        first = self.ids[0]
        if self.how == "vocabulary":
            logits = self.language_model.first_logits(sequences, None)
            highest = logits.max(1)
            total = np.exp(logits - highest[:, None]).sum(1)
            values: Rows = np.exp(logits[:, first] - highest) / total
            return values
        if self.how == "logit":
            return self.language_model.first_logits(sequences, [first])[:, 0]
        yes, no = self.language_model.first_logits(sequences, self.ids).T
        return probability(yes - no)


def _score(how: str) -> Score:
    for score in SCORES:
        if how == score:
            return score
    raise InputError(f"there is no score {how!r}", hint=f"say {', '.join(SCORES)}")


def _open(
    folder: Path, runtime: Runtime, family: Family, length: int
) -> tuple[LanguageModel, Tokens]:
    if runtime.is_onnx:
        session = Session.open(folder, runtime.backend, "target-words")
        return OnnxLanguageModel(session), open_tokens(folder, read_config(folder))
    if runtime.backend == "transformers":
        from tamis.backends.network import open_tokens as open_as_transformers

        tokens = open_as_transformers(folder, runtime.trust_remote_code)
        mask = None
        if family == "masked":
            mask = tokens.backend.token_to_id(mask_of(folder, tokens))
        model: LanguageModel = open_language_model(
            folder, family, mask, runtime.device, runtime.dtype, runtime.trust_remote_code
        )
        return model, tokens
    check_memory(folder, runtime.dtype, runtime.device)
    loaded = load(folder)
    return _t5.build(loaded, length), loaded.tokens


def family_of(folder: Path, config: Mapping[str, Any], family: str | None = None) -> Family:
    """What kind of language model this is said to be, or what its config describes."""
    for known_family in FAMILIES:
        if family == known_family:
            return known_family
    names = config.get("architectures") or [""]
    if config.get("is_encoder_decoder") or names[0].endswith("ConditionalGeneration"):
        return "sequence-to-sequence"
    if names[0].endswith("ForMaskedLM"):
        return "masked"
    if names[0].endswith(("ForCausalLM", "LMHeadModel")):
        return "causal"
    raise InputError(
        f"{folder} does not say what kind of language model it is ({names[0] or 'nothing'})",
        hint=f"say it: --family, one of {', '.join(FAMILIES)}",
    )


def length_of(config: Mapping[str, Any], max_length: int | None) -> int:
    """The length in tokens at which texts are truncated; an error beyond the model's positions."""
    longest = positions_of(config)
    if max_length is not None and not 0 < max_length <= longest:
        raise InputError(
            f"cannot truncate texts at {max_length} tokens",
            hint=f"this model takes {longest} at most",
        )
    return max_length or min(DEFAULT_LENGTH, longest)


def positions_of(config: Mapping[str, Any]) -> int:
    """How many tokens a language model takes by its config.

    >>> positions_of({"model_type": "gpt2", "n_positions": 1024})
    1024
    """
    if config["model_type"] in _t5.FAMILIES:
        return MAX_T5_TOKENS
    longest = config.get("n_positions") or config.get("max_position_embeddings") or DEFAULT_LENGTH
    return int(longest) - 2 * ("roberta" in config["model_type"])


def with_mask(template: str, folder: Path, tokens: Tokens) -> str:
    """The template with the mask at its end, where it has none."""
    mask = mask_of(folder, tokens)
    return template if mask in template else f"{template} {mask}"


def mask_of(folder: Path, tokens: Tokens) -> str:
    """The mask token of a masked language model."""
    said = read_json(folder / "tokenizer_config.json").get("mask_token")
    own = said.get("content") if isinstance(said, dict) else said
    names = [own, "[MASK]", "<mask>"]
    masks = [mask for mask in names if mask and tokens.backend.token_to_id(mask) is not None]
    if not masks:
        raise InputError(
            f"the tokenizer of {folder} has no mask", hint="is it a masked language model?"
        )
    return masks[0]
