"""Exported models in ONNX Runtime: sequences padded to a rectangle, one batch per thread, no torch.

Which thread runs which batch is left to `batches`, so a session uses one thread. ONNX Runtime's
own fusion of addition and normalisation is switched off: 8-bit files take 7% longer with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.backends.batches import Rows
from tamis.backends.pooling import pool_text
from tamis.backends.protocols import Backend, Kind
from tamis.backends.tokens import DEFAULT_LENGTH, TokenIds
from tamis.backends.weight_digests import check_weights
from tamis.backends.weights import read_config, weight_files
from tamis.errors import InputError, command, require

ONNX_FILES: Mapping[Backend, str] = {
    "onnx": "onnx/model.onnx",
    "onnx-int8": "onnx/model_qint8.onnx",
}
"""Where sentence-transformers looks, too."""
GRAPH_FILE = "graph.onnx"
"""A float export without weights of its own, which reads those of the folder."""
INPUTS = ("input_ids", "attention_mask", "token_type_ids", "position_ids")
OUTPUTS: Mapping[Kind, tuple[str, ...]] = {
    "cross-encoder": ("logits",),
    "bi-encoder": ("last_hidden_state", "token_embeddings", "sentence_embedding"),
}
"""What files that others exported may take and give, the better output first."""
DISABLED_FUSIONS = ["SkipLayerNormFusion", "BiasSkipLayerNormFusion"]


def export_file(folder: Path, backend: Backend) -> Path:
    """The ONNX file that a back end runs, whether it is there or not."""
    graph = folder / GRAPH_FILE
    return graph if backend == "onnx" and graph.is_file() else folder / ONNX_FILES[backend]


def export_files(folder: Path, backend: Backend) -> list[Path]:
    """The same with the files of weights that it reads."""
    file = export_file(folder, backend)
    return [file, *weight_files(folder)] if file.name == GRAPH_FILE else [file]


@dataclass(frozen=True, eq=False)
class Session:
    """An ONNX file of a model folder, ready to run, and what was written into it."""

    inner: Any
    facts: Mapping[str, str]
    inputs: frozenset[str]
    output: str
    """The name of the output that is read."""

    @classmethod
    def open(cls, folder: Path, backend: Backend, kind: Kind) -> Session:
        """The export of a folder that this back end runs."""
        path = export_file(folder, backend)
        if not path.is_file():
            raise InputError(
                f"{folder} has no {ONNX_FILES[backend]}",
                hint=command("export", folder, "-o", f"{folder.resolve().name}-onnx"),
            )
        for file in export_files(folder, backend):
            check_weights(folder, file)
        inner = _session(path)
        facts = dict(inner.get_modelmeta().custom_metadata_map)
        inputs = frozenset(model_input.name for model_input in inner.get_inputs())
        outputs = [model_output.name for model_output in inner.get_outputs()]
        if "scorer" not in facts and kind in OUTPUTS:
            facts = _facts_of_others(folder, kind)
            _check_names(path, kind, inputs, outputs)
            outputs = [name for name in OUTPUTS[kind] if name in outputs]
        if facts.get("scorer") != kind or not facts.get("longest", "").isdigit():
            raise InputError(
                f"{path} was not written by tamis for a {kind}", hint="export the model again"
            )
        return cls(inner, facts, inputs, outputs[0])

    @property
    def longest(self) -> int:
        """How many tokens a sequence may have."""
        return int(self.facts["longest"])

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The shape of the output for one sequence of two tokens."""
        return self.run([np.zeros(2, np.int32)]).shape

    @property
    def width(self) -> int:
        """How many values the last axis of the output has."""
        return int(self.shape[-1])

    def run(
        self, sequences: Sequence[TokenIds], segments: Sequence[TokenIds] | None = None
    ) -> NDArray[np.float32]:
        """What the model gives for these sequences."""
        lengths = np.array([len(sequence) for sequence in sequences])
        mask = np.arange(lengths.max())[None, :] < lengths[:, None]
        ids_by_input = {"input_ids": sequences, "token_type_ids": segments or ()}
        values = {
            "attention_mask": mask.astype(np.int64),
            "position_ids": np.broadcast_to(np.arange(mask.shape[1]), mask.shape),
        }
        values = {name: array for name, array in values.items() if name in self.inputs}
        for name in self.inputs - values.keys():
            values[name] = np.zeros(mask.shape, np.int64)
            if ids_by_input[name]:
                values[name][mask] = np.concatenate(ids_by_input[name])
        output: NDArray[np.float32] = self.inner.run([self.output], values)[0]
        return output


@dataclass(frozen=True, eq=False)
class OnnxCrossEncoder:
    """A cross-encoder in ONNX Runtime."""

    session: Session

    @property
    def outputs(self) -> int:
        """How many values it gives."""
        return self.session.width

    @property
    def longest(self) -> int:
        """How many tokens a sequence may have."""
        return self.session.longest

    def logits(self, sequences: Sequence[TokenIds], segments: Sequence[TokenIds]) -> Rows:
        """One row of outputs per sequence."""
        return self.session.run(sequences, segments)


@dataclass(frozen=True, eq=False)
class OnnxBiEncoder:
    """A bi-encoder in ONNX Runtime."""

    session: Session

    @property
    def pools(self) -> bool:
        """Whether the file gives embeddings of texts, not of tokens."""
        return len(self.session.shape) == 2

    @property
    def dimensions(self) -> int:
        """The number of dimensions of an embedding."""
        return self.session.width

    @property
    def longest(self) -> int:
        """How many tokens a sequence may have."""
        return self.session.longest

    def pool_tokens(self, sequences: Sequence[TokenIds], pooling: str, skip: int = 0) -> Rows:
        """One embedding per sequence."""
        states = self.session.run(sequences)
        if self.pools:
            return states
        texts = zip(states, sequences, strict=True)
        rows = [np.concatenate(pool_text(row[: len(ids)], pooling, skip)) for row, ids in texts]
        return np.stack(rows)


@dataclass(frozen=True, eq=False)
class OnnxLanguageModel:
    """A language model in ONNX Runtime, which knows only the logits of its two words."""

    session: Session

    @property
    def ids(self) -> list[int]:
        """The words it was exported with."""
        return [int(number) for number in self.session.facts["words"].split()]

    def first_logits(self, sequences: Sequence[TokenIds], ids: Sequence[int] | None) -> Rows:
        """The logits of these ids for the first token written after each sequence."""
        if ids is None or not set(ids) <= set(self.ids):
            raise InputError(
                f"the export knows only the words {self.ids}",
                hint="export the model with these words, or use another back end",
            )
        columns = [self.ids.index(number) for number in ids]
        return self.session.run(sequences)[:, columns]


def _facts_of_others(folder: Path, kind: Kind) -> dict[str, str]:
    """What is written into our own files, for one that others exported, from its config."""
    config = read_config(folder)
    longest = int(config.get("max_position_embeddings") or DEFAULT_LENGTH)
    if longest % 2 == 0 and config.get("pad_token_id") == 1 and longest - 2 >= DEFAULT_LENGTH:
        longest -= 2  # where padding is token 1, the first two positions are never used
    return {"scorer": kind, "longest": str(longest)}


def _check_names(path: Path, kind: Kind, inputs: frozenset[str], outputs: Sequence[str]) -> None:
    unknown = sorted(inputs - set(INPUTS))
    if unknown or not set(outputs) & set(OUTPUTS[kind]):
        problem = f"takes {unknown[0]}" if unknown else f"gives {', '.join(outputs)}"
        raise InputError(
            f"{path} {problem}; for a {kind} it takes {', '.join(INPUTS)} and gives "
            f"{' or '.join(OUTPUTS[kind])}",
            hint="export the model with tamis export, or run its weights: --backend transformers",
        )


def _session(path: Path) -> Any:
    runtime = require("onnxruntime")
    errors = require("onnxruntime.capi.onnxruntime_pybind11_state")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_mem_pattern = False  # a pattern is kept for every shape
    options.log_severity_level = 3
    try:
        return runtime.InferenceSession(
            str(path),
            options,
            providers=["CPUExecutionProvider"],
            disabled_optimizers=DISABLED_FUSIONS,
        )
    except (errors.InvalidProtobuf, errors.Fail, errors.InvalidGraph, errors.NotImplemented,
            errors.InvalidArgument) as problem:  # fmt: skip
        raise InputError(
            f"{path} cannot be read: {str(problem)[:200]}", hint="export the model again"
        ) from None
