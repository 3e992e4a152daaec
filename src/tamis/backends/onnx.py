"""Exported models in ONNX Runtime: sequences padded to a rectangle, one batch per thread, no torch.

Which thread runs which batch is left to `batches`, so a session uses one thread. ONNX Runtime's
own fusion of addition and normalisation is switched off: 8-bit files take 7% longer with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.backends.batches import Rows
from tamis.backends.pooling import pool_text
from tamis.backends.protocols import Backend, Kind
from tamis.backends.tokens import TokenIds
from tamis.backends.weight_digests import check_weights
from tamis.errors import InputError, command, require

ONNX_FILES: Mapping[Backend, str] = {
    "onnx": "onnx/model.onnx",
    "onnx-int8": "onnx/model_qint8.onnx",
}
"""Where sentence-transformers looks, too."""
DISABLED_FUSIONS = ["SkipLayerNormFusion", "BiasSkipLayerNormFusion"]


@dataclass(frozen=True, eq=False)
class Session:
    """An ONNX file of a model folder, ready to run, and what was written into it."""

    inner: Any
    facts: Mapping[str, str]
    inputs: frozenset[str]

    @classmethod
    def open(cls, folder: Path, backend: Backend, kind: Kind) -> Session:
        """The export of a folder that this back end runs."""
        path = folder / ONNX_FILES[backend]
        if not path.is_file():
            raise InputError(
                f"{folder} has no {ONNX_FILES[backend]}",
                hint=command("export", folder, "-o", f"{folder.resolve().name}-onnx"),
            )
        check_weights(folder, path)
        inner = _session(path)
        facts = dict(inner.get_modelmeta().custom_metadata_map)
        if facts.get("scorer") != kind or not facts.get("longest", "").isdigit():
            raise InputError(
                f"{path} was not written by tamis for a {kind}", hint="export the model again"
            )
        return cls(inner, facts, frozenset(model_input.name for model_input in inner.get_inputs()))

    @property
    def longest(self) -> int:
        """How many tokens a sequence may have."""
        return int(self.facts["longest"])

    @property
    def width(self) -> int:
        """How many values the last axis of the output has."""
        return int(self.inner.get_outputs()[0].shape[-1])

    def run(
        self, sequences: Sequence[TokenIds], segments: Sequence[TokenIds] | None = None
    ) -> NDArray[np.float32]:
        """What the model gives for these sequences."""
        lengths = np.array([len(sequence) for sequence in sequences])
        mask = np.arange(lengths.max())[None, :] < lengths[:, None]
        ids_by_input = {"input_ids": sequences, "token_type_ids": segments or ()}
        values = {"attention_mask": mask.astype(np.int64)}
        for name in self.inputs - {"attention_mask"}:
            values[name] = np.zeros(mask.shape, np.int64)
            if ids_by_input[name]:
                values[name][mask] = np.concatenate(ids_by_input[name])
        output: NDArray[np.float32] = self.inner.run(None, values)[0]
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
        if states.ndim == 2:  # the file pools
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
