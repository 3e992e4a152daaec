"""A model of transformers on its device: how it is opened, and how a batch runs through it.

Sequences are padded on their right to the longest of their batch. That is exact for encoders,
which mask what is padded, and for causal models, which do not look ahead. Where it is not, as in
models that convolve over tokens, a batch has sequences of one length only; it is tried when a model
is opened. So it is where a model for classification finds its last token by a pad token and names
none.
"""

from __future__ import annotations

import inspect
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np

from tamis.backends.batches import Rows, groups
from tamis.backends.devices import HalfPrecisionError, torch_dtype
from tamis.backends.memory import check_memory
from tamis.backends.protocols import Family, Kind
from tamis.backends.tokens import TokenIds, Tokens, lower_case, lowers_case
from tamis.backends.weight_digests import check_weights
from tamis.backends.weights import (
    Tensor,
    check_header,
    check_layers,
    check_rows,
    misshapen,
    read_config,
    weight_files,
)
from tamis.errors import MISMATCH_ERRORS, InputError, require

UNUSED = ("pooler.", "embeddings.position_ids", "decoder.", "lm_head.")
"""Weights that may be missing where the vectors of tokens are read."""
MAX_LENGTH_WITHOUT_POSITIONS = 4096
PADDING_PROBES = ("a", "a sieve is a drum " * 4)
PADDING_TOLERANCE = {"float32": 1e-4}
HALF_PRECISION_TOLERANCE = 0.05
"""How far padding may move a value, as a share of the largest."""
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
    tokens: Tokens
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

    def blocks(self, sequences: Sequence[TokenIds]) -> list[slice]:
        """Which neighbours may be padded to one rectangle."""
        return same_lengths(sequences) if self.one_length else [slice(0, len(sequences))]

    def run(
        self,
        sequences: Sequence[TokenIds],
        segments: Sequence[TokenIds] | None,
        read: Callable[[Sequence[TokenIds], Sequence[TokenIds] | None], Tensor],
    ) -> Rows:
        """One row per sequence, in float32, without gradients; see `read`."""
        rows = []
        with require("torch").inference_mode():
            for block in self.blocks(sequences):
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


def same_lengths(sequences: Sequence[TokenIds]) -> list[slice]:
    """Where neighbours of one length stand."""
    blocks, start = [], 0
    for count, _ in groups([len(sequence) for sequence in sequences]):
        blocks.append(slice(start, start + count))
        start += count
    return blocks


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
    check_memory(folder, dtype, device)
    model, info = load_model(folder, auto_class, dtype, trust, kind)
    check_loaded(folder, info, kind, family)
    return network_of(folder, model, device, kind, trust)


def network_of(folder: Path, model: Any, device: str, kind: Kind, trust: bool = False) -> Network:
    """A model that was loaded from a folder, checked against its tokenizer, on a device."""
    from tamis.backends._dense_product import with_dense_layers  # imports torch

    tokens, rows = open_tokens(folder, trust), _embedding_rows(model)
    if rows is not None:
        check_rows(folder, tokens, rows)
    _check_finite(folder, model)
    model = with_dense_layers(model.to(device).eval())
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
    network = Network(model, require("torch").device(device), int(pad), inputs, tokens, one_length)
    dtype = str(model.dtype).removeprefix("torch.")
    writes = kind == "target-words" and model.config.is_encoder_decoder
    check_precision(folder, network, dtype, writes)
    if one_length or writes or not _padding_matters(network, tokens):
        return network
    return replace(network, one_length=True)


def check_precision(folder: Path, network: Network, dtype: str, writes: bool) -> None:
    """Refuse a half precision in which a model fails or gives what is no number."""
    if dtype == "float32":
        return
    texts = _probes(network.tokens)
    more = {}
    if writes:
        torch = require("torch")
        more["decoder_input_ids"] = torch.zeros((len(texts), 1), dtype=int, device=network.device)
    try:
        with require("torch").inference_mode():
            values = _values(network, texts, **more)
    except MISMATCH_ERRORS as error:
        if isinstance(error, RuntimeError) and is_out_of_memory(error):
            raise
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise HalfPrecisionError(folder, dtype, reason[0][:200]) from error
    if not bool(values.isfinite().all()):
        raise HalfPrecisionError(folder, dtype, "it gives values that are not numbers")


def open_tokens(folder: Path, trust: bool = False) -> Tokens:
    """The tokenizer of a folder as transformers opens it: its class may add to tokenizer.json, and
    says whether it gives segments. Where transformers has no class for it, that file alone.
    """
    tokens = Tokens.open(folder)
    try:
        with quiet_transformers():
            own = require("transformers").AutoTokenizer.from_pretrained(
                folder, local_files_only=True, trust_remote_code=trust
            )
        backend = require("tokenizers").Tokenizer.from_str(own.backend_tokenizer.to_str())
    except (ImportError, ValueError, OSError, AttributeError, KeyError, TypeError):
        return tokens
    if lowers_case(folder):
        lower_case(backend)
    return Tokens.of(backend, "token_type_ids" in own.model_input_names)


def _embedding_rows(model: Any) -> int | None:
    """How many ids a model has embeddings for; None where it has no table of them."""
    with suppress(NotImplementedError):
        table = model.get_input_embeddings()
        if hasattr(table, "weight"):
            return len(table.weight)
    return None


def _padding_matters(network: Network, tokens: Tokens) -> bool:
    """Whether a model gives a short text something else beside a long one."""
    texts = _probes(tokens)
    if not len(texts[0]) < len(texts[1]) <= longest_of(network.model):
        return False
    with require("torch").inference_mode():
        alone, beside = (_values(network, texts[:count]) for count in (1, 2))
    dtype = str(network.model.dtype).removeprefix("torch.")
    tolerance = PADDING_TOLERANCE.get(dtype, HALF_PRECISION_TOLERANCE)
    return bool((alone - beside).abs().max() > tolerance * alone.abs().max())


def _probes(tokens: Tokens) -> list[TokenIds]:
    """A short text and a long one."""
    return [np.array(tokens.backend.encode(text).ids, np.int32) for text in PADDING_PROBES]


def _values(network: Network, texts: Sequence[TokenIds], **more: Any) -> Tensor:
    """What a model gives for the first of some texts."""
    output = network.forward(texts, [np.zeros_like(ids) for ids in texts], **more)
    states = output.logits if "logits" in output else output.last_hidden_state
    return states[0][: len(texts[0])].float()


def load_model(
    folder: Path, name: str, dtype: str, trust: bool, kind: Kind, **options: Any
) -> tuple[Any, dict[str, Any]]:
    """What transformers makes of a folder by this class, and what it says of the weights, which
    may be of other shapes: see `check_loaded`.
    """
    for file in weight_files(folder):
        check_weights(folder, file)
        check_header(file)
    auto, errors = getattr(require("transformers"), name), require("huggingface_hub.errors")
    try:
        with quiet_transformers():
            model, info = auto.from_pretrained(
                folder, local_files_only=True, dtype=torch_dtype(dtype),
                output_loading_info=True, trust_remote_code=trust, ignore_mismatched_sizes=True,
                **options,
            )  # fmt: skip
    except (
        errors.StrictDataclassError,
        UnpicklingError,
        OSError,
        ValueError,
        KeyError,
        RuntimeError,
        ImportError,
    ) as error:
        raise _unreadable(folder, kind, trust, error) from error
    return model, info


def check_loaded(
    folder: Path, info: Mapping[str, Any], kind: Kind, family: Family | None = None
) -> None:
    """Refuse a model of which weights were missing, of another shape, or of unknown layers."""
    missing = sorted(info["missing_keys"])
    if kind == "bi-encoder":
        missing = [key for key in missing if not any(part in key for part in UNUSED)]
    if missing or info.get("mismatched_keys"):
        raise _misfit(folder, missing, info.get("mismatched_keys"), kind, family)
    check_layers(folder, info["unexpected_keys"])


def _misfit(
    folder: Path, missing: Sequence[str], mismatched: Any, kind: Kind, family: Family | None
) -> InputError:
    if missing:
        hint = "is this the kind of model you think it is? config.json and weights disagree"
        if family:
            hint = "a language model has a head that writes words; is it an encoder?"
        what = f"{family} language model" if family else kind
        return InputError(f"{folder} has no weights {missing[0]} and is no {what}", hint=hint)
    return misshapen(folder, sorted(name for name, *_ in mismatched)[0])


def _unreadable(folder: Path, kind: Kind, trust: bool, error: Exception) -> InputError:
    config, reason = read_config(folder), str(error).strip().splitlines()
    if config.get("auto_map") and not trust:
        return InputError(
            f"{folder} is run by code of its own (model type {config['model_type']!r}), which "
            "tamis does not run unasked",
            hint=f"read that code; then allow it by name: --trust-remote-code {folder} "
            "(fit, import-model and export take no such model)",
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
            if weight.dtype != torch.float32 and not bool(torch.isnan(weight).any()):
                dtype = str(weight.dtype).removeprefix("torch.")
                raise HalfPrecisionError(folder, dtype, f"{name} has larger values")
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
