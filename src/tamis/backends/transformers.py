"""The transformers back end: whatever architecture transformers opens, on any device.

Sequences are padded on their right to the longest of their batch. That is exact for encoders,
which mask what is padded, and for causal models, which do not look ahead; last tokens are found by
their places. Where a model for classification finds its last token by a pad token and names none,
a batch has sequences of one length only.

The module stays open for training: `Network.forward` keeps gradients, `Network.model` is the
torch module, and what scoring reads of it (`logits`, `pooled`, `first_logits`) are functions of a
batch that a loss can take.
"""

from __future__ import annotations

import inspect
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np

from tamis.backends.batches import Rows, groups
from tamis.backends.devices import torch_dtype
from tamis.backends.memory import check_memory
from tamis.backends.pooling import pool_padded
from tamis.backends.protocols import Family, Kind
from tamis.backends.tokens import TokenIds, Tokens
from tamis.backends.weight_digests import check_weights
from tamis.backends.weights import (
    Tensor,
    check_layers,
    check_rows,
    read_config,
    weight_files,
)
from tamis.errors import InputError, require

LANGUAGE_MODELS: dict[Family, str] = {
    "sequence-to-sequence": "AutoModelForSeq2SeqLM",
    "causal": "AutoModelForCausalLM",
    "masked": "AutoModelForMaskedLM",
}
ENCODER_ONLY = {
    "t5": "T5EncoderModel",
    "mt5": "MT5EncoderModel",
    "umt5": "UMT5EncoderModel",
    "longt5": "LongT5EncoderModel",
    "switch_transformers": "SwitchTransformersEncoderModel",
    "t5gemma": "T5GemmaEncoderModel",
}
"""Models with a decoder of which a bi-encoder runs the encoder alone, as sentence-transformers."""
UNUSED = ("pooler.", "embeddings.position_ids", "decoder.", "lm_head.")
"""Weights that may be missing where the vectors of tokens are read."""
TOKENS_PER_GPU_BATCH = 32_768
MAX_LENGTH_WITHOUT_POSITIONS = 4096
_log = logging.getLogger(__name__)


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """What transformers prints while it loads is for its own users."""
    logging = require("transformers.utils.logging")
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


@dataclass(frozen=True, eq=False)
class Network:
    """A model of transformers on its device, which takes token ids as the scorers make them."""

    model: Any
    device: Any
    pad: int
    inputs: frozenset[str]
    """The names of what its forward takes."""
    one_length: bool = False
    """Whether the sequences of a batch must have one length."""
    logged: list[str] = field(default_factory=list)

    def forward(
        self,
        sequences: Sequence[TokenIds],
        segments: Sequence[TokenIds] | None = None,
        **more: Any,
    ) -> Any:
        """What the model gives for a batch, with gradients outside inference."""
        batch = self.batch(sequences, segments)
        options = {"use_cache": False, "return_dict": True, **more}
        chosen = {name: value for name, value in options.items() if self._takes(name)}
        return self.model(**batch, **chosen)

    def batch(
        self, sequences: Sequence[TokenIds], segments: Sequence[TokenIds] | None = None
    ) -> dict[str, Tensor]:
        """The sequences padded to a rectangle, on the model's device."""
        lengths = np.array([len(sequence) for sequence in sequences])
        mask = np.arange(lengths.max())[None, :] < lengths[:, None]
        ids = np.full(mask.shape, self.pad, np.int64)
        ids[mask] = np.concatenate(sequences)
        arrays = {"input_ids": ids, "attention_mask": mask.astype(np.int64)}
        if segments is not None and self._takes("token_type_ids"):
            arrays["token_type_ids"] = np.zeros_like(ids)
            arrays["token_type_ids"][mask] = np.concatenate(segments)
        torch = require("torch")
        return {name: torch.as_tensor(array, device=self.device) for name, array in arrays.items()}

    def run(
        self,
        sequences: Sequence[TokenIds],
        segments: Sequence[TokenIds] | None,
        read: Callable[[Sequence[TokenIds], Sequence[TokenIds] | None], Tensor],
    ) -> Rows:
        """One row per sequence, in float32, without gradients; see `read`."""
        blocks = _same_lengths(sequences) if self.one_length else [slice(0, len(sequences))]
        rows = []
        with require("torch").inference_mode():
            for block in blocks:
                some = None if segments is None else segments[block]
                rows += self._halved(sequences[block], some, read)
        return np.concatenate(rows)

    def _halved(
        self,
        sequences: Sequence[TokenIds],
        segments: Sequence[TokenIds] | None,
        read: Callable[[Sequence[TokenIds], Sequence[TokenIds] | None], Tensor],
    ) -> list[Rows]:
        """The rows of a batch; where the device has too little memory, of its halves."""
        try:
            return [read(sequences, segments).float().cpu().numpy()]
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
        if len(sequences) == 1:
            raise InputError(
                f"a text of {len(sequences[0])} tokens does not fit into the memory of "
                f"{self.device}",
                hint="truncate texts at fewer tokens, or use another dtype or device",
            )
        self._free(len(sequences))
        half = len(sequences) // 2
        first, second = slice(0, half), slice(half, None)
        return [
            *self._halved(sequences[first], None if segments is None else segments[first], read),
            *self._halved(sequences[second], None if segments is None else segments[second], read),
        ]

    def _free(self, size: int) -> None:
        torch = require("torch")
        if str(self.device).startswith("cuda"):
            torch.cuda.empty_cache()
        if not self.logged:
            self.logged.append("out of memory")
            _log.warning(
                "%s is out of memory with %d texts: they are run in halves", self.device, size
            )

    def _takes(self, name: str) -> bool:
        return name in self.inputs


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether torch says that a device has too little memory."""
    torch = require("torch")
    return isinstance(error, torch.OutOfMemoryError) or "out of memory" in str(error).lower()


def _same_lengths(sequences: Sequence[TokenIds]) -> list[slice]:
    blocks, start = [], 0
    for count, _ in groups([len(sequence) for sequence in sequences]):
        blocks.append(slice(start, start + count))
        start += count
    return blocks


@dataclass(frozen=True, eq=False)
class TransformersCrossEncoder:
    """A cross-encoder in transformers."""

    network: Network
    longest: int

    @property
    def outputs(self) -> int:
        """How many values it gives."""
        return int(self.network.model.config.num_labels)

    def logits(self, sequences: Sequence[TokenIds], segments: Sequence[TokenIds]) -> Rows:
        """One row of outputs per sequence."""
        return self.network.run(sequences, segments, self.scores)

    def scores(self, sequences: Sequence[TokenIds], segments: Sequence[TokenIds] | None) -> Tensor:
        """`logits` as a tensor, which knows its gradient outside inference."""
        return self.network.forward(sequences, segments).logits


@dataclass(frozen=True, eq=False)
class TransformersBiEncoder:
    """A bi-encoder in transformers."""

    network: Network
    longest: int

    @property
    def dimensions(self) -> int:
        """The number of dimensions of a token's vector."""
        config = self.network.model.config.get_text_config()
        return int(config.hidden_size)

    def pool_tokens(self, sequences: Sequence[TokenIds], pooling: str, skip: int = 0) -> Rows:
        """One embedding per sequence."""
        return self.network.run(sequences, None, lambda some, _: self.pooled(some, pooling, skip))

    def pooled(
        self,
        sequences: Sequence[TokenIds],
        pooling: str,
        skip: int = 0,
        segments: Sequence[TokenIds] | None = None,
    ) -> Tensor:
        """`pool_tokens` as a tensor, which knows its gradient outside inference."""
        segments = segments or [np.zeros(len(sequence), np.int32) for sequence in sequences]
        states = self.network.forward(sequences, segments).last_hidden_state
        return pool_padded(states.float(), [len(ids) for ids in sequences], pooling, skip)


@dataclass(frozen=True, eq=False)
class TransformersLanguageModel:
    """A language model in transformers."""

    network: Network
    family: Family
    special: int
    """The mask, or the token that starts the answer."""

    def first_logits(self, sequences: Sequence[TokenIds], ids: Sequence[int] | None) -> Rows:
        """See `LanguageModel.first_logits`."""
        columns = slice(None) if ids is None else list(ids)
        return self.network.run(sequences, None, lambda some, _: self.next_token(some)[:, columns])

    def next_token(self, sequences: Sequence[TokenIds]) -> Tensor:
        """The logits of the whole vocabulary for the token that comes next, or for the mask."""
        torch, network = require("torch"), self.network
        rows = torch.arange(len(sequences), device=network.device)
        if self.family == "sequence-to-sequence":
            start = torch.full((len(sequences), 1), self.special, device=network.device)
            return network.forward(sequences, decoder_input_ids=start).logits[:, 0]
        if self.family == "masked":
            places = [int(np.flatnonzero(ids == self.special)[-1]) for ids in sequences]
            segments = [np.zeros(len(ids), np.int32) for ids in sequences]
            logits = network.forward(sequences, segments).logits
            return logits[rows, torch.tensor(places, device=network.device)]
        lasts, which = np.unique([len(ids) - 1 for ids in sequences], return_inverse=True)
        wanted = torch.tensor(lasts, device=network.device)
        if "logits_to_keep" in network.inputs:  # those of the last tokens alone
            logits = network.forward(sequences, logits_to_keep=wanted).logits
        else:
            logits = network.forward(sequences).logits[:, wanted]
        return logits[rows, torch.tensor(which, device=network.device)]


def open_cross_encoder(folder: Path, device: str, dtype: str, trust: bool) -> Any:
    """The model for sequence classification in a folder."""
    network = open_network(
        folder, "AutoModelForSequenceClassification", device, dtype, trust, "cross-encoder"
    )
    return TransformersCrossEncoder(network, longest_of(network.model))


def open_bi_encoder(folder: Path, device: str, dtype: str, trust: bool) -> Any:
    """The encoder in a folder, whatever head it has."""
    name = ENCODER_ONLY.get(read_config(folder)["model_type"], "AutoModel")
    network = open_network(folder, name, device, dtype, trust, "bi-encoder")
    return TransformersBiEncoder(network, longest_of(network.model))


def open_language_model(
    folder: Path, family: Family, special: int | None, device: str, dtype: str, trust: bool
) -> TransformersLanguageModel:
    """The language model in a folder; `special` is the mask of a masked one."""
    network = open_network(
        folder, LANGUAGE_MODELS[family], device, dtype, trust, "target-words", family
    )
    if family == "sequence-to-sequence":
        special = start_token(network.model.config, folder)
    return TransformersLanguageModel(network, family, special or 0)


def start_token(config: Any, folder: Path) -> int:
    """The token that a decoder starts with."""
    for name in ("decoder_start_token_id", "bos_token_id", "pad_token_id"):
        if getattr(config, name, None) is not None:
            return int(getattr(config, name))
    raise InputError(
        f"{folder} does not say with which token its decoder starts",
        hint="write decoder_start_token_id into its config.json",
    )


def open_network(
    folder: Path,
    auto_class: str,
    device: str,
    dtype: str,
    trust: bool,
    kind: Kind,
    family: Family | None = None,
) -> Network:
    """The model of a folder on a device, all of whose weights were there and fit."""
    for file in weight_files(folder):
        check_weights(folder, file)
    check_memory(folder, dtype, device)
    model = _load(folder, auto_class, dtype, trust, kind, family)
    tokens, embeddings = Tokens.open(folder), model.get_input_embeddings()
    if embeddings is not None and hasattr(embeddings, "weight"):
        check_rows(folder, tokens, len(embeddings.weight))
    _check_finite(folder, model)
    model = model.to(device).eval()
    inputs = frozenset(inspect.signature(model.forward).parameters)
    if not tokens.segmented:
        inputs -= {"token_type_ids"}
    text_config = model.config.get_text_config()
    pad = getattr(text_config, "pad_token_id", None)
    one_length = False
    if pad is None or pad < 0:
        one_length = kind == "cross-encoder" and hasattr(model, "score")
        if one_length:  # no token is taken for padding: the last one is read
            text_config.pad_token_id = model.config.pad_token_id = -1
        pad = 0
    return Network(model, require("torch").device(device), int(pad), inputs, one_length)


def _load(
    folder: Path, name: str, dtype: str, trust: bool, kind: Kind, family: Family | None
) -> Any:
    transformers, errors = require("transformers"), require("safetensors").SafetensorError
    auto = getattr(transformers, name)
    try:
        with quiet_transformers():
            model, info = auto.from_pretrained(
                folder, local_files_only=True, dtype=torch_dtype(dtype),
                output_loading_info=True, trust_remote_code=trust,
            )  # fmt: skip
    except (
        errors,
        UnpicklingError,
        OSError,
        ValueError,
        KeyError,
        RuntimeError,
        ImportError,
    ) as error:
        raise _unreadable(folder, kind, trust, error) from error
    missing = sorted(info["missing_keys"])
    if kind == "bi-encoder":
        missing = [key for key in missing if not any(part in key for part in UNUSED)]
    if missing or info.get("mismatched_keys"):
        raise _misfit(folder, missing, info.get("mismatched_keys"), kind, family)
    check_layers(folder, info["unexpected_keys"])
    return model


def _misfit(
    folder: Path, missing: Sequence[str], mismatched: Any, kind: Kind, family: Family | None
) -> InputError:
    if missing:
        hint = "is this the kind of model you think it is? config.json and weights disagree"
        if family:
            hint = "a language model has a head that writes words; is it an encoder?"
        what = f"{family} language model" if family else kind
        return InputError(f"{folder} has no weights {missing[0]} and is no {what}", hint=hint)
    first = sorted(mismatched)[0]
    name = first[0] if isinstance(first, tuple) else first
    return InputError(
        f"{folder}: {name} has another shape than config.json says",
        hint="config.json and weights are of different models: copy both from the same place",
    )


def _unreadable(folder: Path, kind: Kind, trust: bool, error: Exception) -> InputError:
    config, reason = read_config(folder), str(error).strip().splitlines()
    if config.get("auto_map") and not trust:
        return InputError(
            f"{folder} is run by code of its own (model type {config['model_type']!r}), which "
            "tamis does not run unasked",
            hint=f"read that code; then allow it by name: --trust-remote-code {folder}",
        )
    return InputError(
        f"transformers cannot open {folder} as a {kind}: "
        f"{reason[0][:200] if reason else type(error).__name__}",
        hint="do config.json and weights belong together, and is transformers new enough for it?",
    )


def _check_finite(folder: Path, model: Any) -> None:
    torch = require("torch")
    for name, weight in model.named_parameters():
        if not bool(torch.isfinite(weight).all()):
            raise InputError(
                f"{folder}: {name} has values that are not numbers (NaN or infinite)",
                hint="the training failed or the file is damaged: take an earlier copy",
            )


def longest_of(model: Any) -> int:
    """How many tokens a sequence may have: as many as there are positions.

    Where a table of positions has a row for padding, positions are counted from the one after it.
    """
    for module in model.modules():
        table: Any = getattr(module, "position_embeddings", None)
        padding = getattr(table, "padding_idx", None)
        if padding is not None and hasattr(table, "num_embeddings"):
            return int(table.num_embeddings) - int(padding) - 1
    config = model.config.get_text_config()
    longest = getattr(config, "max_position_embeddings", None)
    return longest if isinstance(longest, int) and longest > 0 else MAX_LENGTH_WITHOUT_POSITIONS
