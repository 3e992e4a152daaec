"""Relevance as a language model's choice between two words, from one decoding step.

T5 runs without padding in tamis's own code; other sequence-to-sequence, causal and masked models
run in transformers, in batches of one length.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from tamis.errors import InputError, require
from tamis.scorers import _t5
from tamis.scorers._onnx import Backend, OnnxLanguageModel, Session
from tamis.scorers.batches import (
    TOKENS_PER_BATCH,
    Numbers,
    Rows,
    chunks,
    groups,
    probability,
    run_batches,
)
from tamis.scorers.model_manifest import manifest_for
from tamis.scorers.origin import Origin, model_spec
from tamis.scorers.target_tokens import word_ids
from tamis.scorers.template import Template
from tamis.scorers.tokens import DEFAULT_LENGTH, TokenIds, Tokens
from tamis.scorers.weights import Loaded, Tensor, load, open_tokens, read_config
from tamis.types import Pairs, Scores, Spec
from tamis.types.pipeline import Scale

DEFAULT_TEMPLATE = "Query: {query} Document: {document} Relevant:"
MAX_T5_TOKENS = 4096
"""T5 knows distances, not positions, so this bounds only the table of distances."""
Score = Literal["words", "logit", "vocabulary"]
Family = Literal["sequence-to-sequence", "causal", "masked"]
SCORES: tuple[Score, ...] = ("words", "logit", "vocabulary")
FAMILIES: tuple[Family, ...] = ("sequence-to-sequence", "causal", "masked")


class LanguageModel(Protocol):
    """A language model that can say what it would write next."""

    def first_logits(self, sequences: Sequence[TokenIds], ids: Sequence[int] | None) -> Rows:
        """The logits of the next token after each sequence: of these ids, or of all."""


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
        backend: Backend = "torch",
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
        if backend == "torch":
            loaded = load(path)
        else:
            config = read_config(path)
            loaded = Loaded(path, config, {}, open_tokens(path, config))
        kind = family_of(loaded, family or (manifest.family if manifest else None))
        length = length_of(loaded, max_length or (manifest.max_length if manifest else None))
        text = template or (manifest.template if manifest else None) or DEFAULT_TEMPLATE
        return cls(
            language_model_of(loaded, kind, length)
            if backend == "torch"
            else OnnxLanguageModel(Session.open(path, backend, "target-words")),
            loaded.tokens,
            Template(with_mask(text, loaded) if kind == "masked" else text),
            word_ids(loaded.tokens, target_words),
            length,
            kind,
            _score(score or (manifest.score if manifest else None) or "words"),
            threads,
            origin=Origin.of(
                "target-words", path, backend, words=list(words) if words else None, score=score,
                template=template, max_length=max_length, family=family,
            ),
        )  # fmt: skip

    def spec(self) -> Spec:
        """Plain JSON from which the model can be opened again."""
        return model_spec(self.origin, self)

    @property
    def scale(self) -> Scale:
        """A probability, or the bare logit."""
        return "logit" if self.how == "logit" else "probability"

    def score(self, pairs: Pairs) -> Scores:
        """One value per pair, and how many of its tokens were truncated."""
        values, truncated_tokens = np.empty(len(pairs), np.float32), np.zeros(len(pairs), np.int32)
        for rows, piece in chunks(pairs):
            values[rows], truncated_tokens[rows] = self._score_chunk(piece)
        return Scores(values, truncated_tokens)

    def _score_chunk(self, pairs: Pairs) -> tuple[NDArray[np.float32], list[int]]:
        texts = [(pairs.queries[q], pairs.texts[t]) for q, t in pairs.index.tolist()]
        sequences, truncated_tokens = self.template.encode(self.tokens, texts, self.max_length)

        def forward(batch: Numbers) -> Rows:
            return self._values([sequences[number] for number in batch.tolist()])

        lengths = [len(sequence) for sequence in sequences]
        rows = run_batches(forward, lengths, budget=self.budget, threads=self.threads)
        return rows[:, 0], truncated_tokens

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


def family_of(loaded: Loaded, family: str | None = None) -> Family:
    """What kind of language model this is said to be, or what its config describes."""
    for known_family in FAMILIES:
        if family == known_family:
            return known_family
    names = loaded.config.get("architectures") or [""]
    if loaded.config.get("is_encoder_decoder") or names[0].endswith("ConditionalGeneration"):
        return "sequence-to-sequence"
    if names[0].endswith("ForMaskedLM"):
        return "masked"
    if names[0].endswith(("ForCausalLM", "LMHeadModel")):
        return "causal"
    raise InputError(
        f"{loaded.folder} does not say what kind of language model it is ({names[0] or 'nothing'})",
        hint=f"say it: --family, one of {', '.join(FAMILIES)}",
    )


def length_of(loaded: Loaded, max_length: int | None) -> int:
    """The length in tokens at which texts are truncated; an error beyond the model's positions."""
    config = loaded.config
    longest = config.get("n_positions") or config.get("max_position_embeddings") or DEFAULT_LENGTH
    if config["model_type"] in _t5.FAMILIES:
        longest = MAX_T5_TOKENS
    elif "roberta" in config["model_type"]:
        longest -= 2
    if max_length is not None and not 0 < max_length <= longest:
        raise InputError(
            f"cannot truncate texts at {max_length} tokens",
            hint=f"this model takes {longest} at most",
        )
    return max_length or min(DEFAULT_LENGTH, longest)


def language_model_of(loaded: Loaded, family: Family, length: int) -> LanguageModel:
    """The language model of a folder, ready to run."""
    if loaded.config["model_type"] in _t5.FAMILIES and family == "sequence-to-sequence":
        return _t5.build(loaded, length)
    return TransformersModel.open(loaded, family)


def with_mask(template: str, loaded: Loaded) -> str:
    """The template with the mask at its end, where it has none."""
    mask = mask_of(loaded)
    return template if mask in template else f"{template} {mask}"


def mask_of(loaded: Loaded) -> str:
    """The mask token of a masked language model."""
    masks = [mask for mask in ("[MASK]", "<mask>") if loaded.tokens.backend.token_to_id(mask)]
    if not masks:
        raise InputError(
            f"the tokenizer of {loaded.folder} has no mask", hint="is it a masked language model?"
        )
    return masks[0]


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """What transformers prints while it loads is for its own users."""
    logging = require("transformers.utils.logging")
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


@dataclass(frozen=True, eq=False)
class TransformersModel:
    """Any language model that transformers can load, in batches of one length."""

    model: Any
    family: Family
    special: int

    @classmethod
    def open(cls, loaded: Loaded, family: Family) -> TransformersModel:
        """The model of a folder; `special` is the mask or the token that starts the answer."""
        transformers = require("transformers")
        kinds = {
            "sequence-to-sequence": transformers.AutoModelForSeq2SeqLM,
            "causal": transformers.AutoModelForCausalLM,
            "masked": transformers.AutoModelForMaskedLM,
        }
        with quiet_transformers():
            model, loading_info = kinds[family].from_pretrained(
                loaded.folder, local_files_only=True, dtype=require("torch").float32,
                output_loading_info=True,
            )  # fmt: skip
        missing = sorted(loading_info["missing_keys"])
        if missing:
            raise InputError(
                f"{loaded.folder} has no weights {missing[0]} and is no {family} language model",
                hint="a language model has a head that writes words; is it an encoder?",
            )
        special = 0
        if family == "masked":
            special = loaded.tokens.backend.token_to_id(mask_of(loaded))
        elif family == "sequence-to-sequence":
            special = int(loaded.config["decoder_start_token_id"])
        return cls(model.eval(), family, special)

    def first_logits(self, sequences: Sequence[TokenIds], ids: Sequence[int] | None) -> Rows:
        """See `Writer.first_logits`."""
        torch = require("torch")
        outputs, start = [], 0
        with torch.inference_mode():
            for count, _ in groups([len(sequence) for sequence in sequences]):
                block = np.stack(sequences[start : start + count]).astype(np.int64)
                outputs.append(self._logits(torch.from_numpy(block)))
                start += count
            logits: Rows = torch.cat(outputs).numpy()
        return logits if ids is None else logits[:, list(ids)]

    def _logits(self, block: Tensor) -> Tensor:
        torch = require("torch")
        attention_mask = torch.ones_like(block)
        if self.family == "sequence-to-sequence":
            start = torch.full((len(block), 1), self.special)
            return self.model(block, attention_mask=attention_mask, decoder_input_ids=start).logits[
                :, 0
            ]
        if self.family == "masked":
            place = block.shape[1] - 1 - (block == self.special).flip(1).int().argmax(1)
            return self.model(block, attention_mask=attention_mask).logits[
                torch.arange(len(block)), place
            ]
        can_limit_logits = "logits_to_keep" in inspect.signature(self.model.forward).parameters
        options = {"logits_to_keep": 1} if can_limit_logits else {}
        return self.model(block, attention_mask=attention_mask, **options).logits[:, -1]
