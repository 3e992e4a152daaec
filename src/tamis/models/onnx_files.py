"""The ONNX files of a model: traced by torch in float, and put into 8-bit integers by ONNX Runtime.

Whether a file ranks as the model does is for `onnx_export` to say.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tamis.backends._t5 import T5
from tamis.backends.network import quiet_transformers
from tamis.backends.protocols import Kind
from tamis.backends.weights import Tensor, read_config
from tamis.errors import InputError, require
from tamis.scorers.bi_encoder import BiEncoder
from tamis.scorers.cross_encoder import CrossEncoder
from tamis.scorers.target_words import MAX_T5_TOKENS, TargetWords
from tamis.types import Scorer

OPSET = 17
NOT_EXPORTED = ("distilbert", "mpnet", "modernbert")
"""Types of models whose ONNX files tamis does not write."""
MAX_BYTES = (1 << 31) - (1 << 24)
"""How many bytes of weights one ONNX file can hold."""


def write_float(path: Path, scorer: Scorer, folder: Path) -> None:
    """Write the model of a folder, which `scorer` runs in torch."""
    check_exportable(folder)
    if isinstance(scorer, CrossEncoder):
        model = _load("AutoModelForSequenceClassification", folder)
        facts = {"scorer": "cross-encoder", "longest": str(scorer.model.longest)}
        _trace(path, model, _first_output(model), _bert_inputs(folder), "logits", facts)
    elif isinstance(scorer, BiEncoder):
        model = _load("AutoModel", folder, add_pooling_layer=False)
        facts = {"scorer": "bi-encoder", "longest": str(scorer.model.longest)}
        _trace(path, model, _first_output(model), _bert_inputs(folder), "last_hidden_state", facts)
    elif isinstance(scorer, TargetWords) and isinstance(scorer.language_model, T5):
        model = _load("AutoModelForSeq2SeqLM", folder)
        words = " ".join(map(str, scorer.ids))
        facts = {"scorer": "target-words", "longest": str(MAX_T5_TOKENS), "words": words}
        forward = _first_step(model, scorer.language_model, scorer.ids)
        _trace(path, model, forward, ["input_ids", "attention_mask"], "logits", facts)
    else:
        raise InputError(f"a {type(scorer).__name__} cannot be exported")


def is_exportable(folder: Path) -> bool:
    """Whether tamis writes the ONNX files of models of this type."""
    return read_config(folder)["model_type"] not in NOT_EXPORTED


def check_exportable(folder: Path) -> None:
    """Refuse a model of a type that tamis does not export."""
    if not is_exportable(folder):
        raise InputError(
            f"{folder} is a model of type {read_config(folder)['model_type']!r}, which tamis does "
            "not export",
            hint="run it in torch: leave the back end out",
        )


def write_int8(path: Path, float_path: Path, kind: Kind) -> None:
    """Write a float file with its layers' matrix products in 8-bit integers, one scale per column.

    BERT's weights have 7 of the 8 bits: a processor without VNNI adds pairs of products in 16 bits,
    which 8 would overflow. T5's are unsigned, which cannot overflow, and what leaves its
    feed-forward layers stays in float. Heads stay in float, too.
    """
    quantization = require("onnxruntime.quantization")
    unsigned = kind == "target-words"
    names = [node.name for node in require("onnx").load(float_path).graph.node]
    types = quantization.QuantType
    with _quiet():
        quantization.quantize_dynamic(
            float_path,
            path,
            op_types_to_quantize=["MatMul"],
            nodes_to_quantize=[name for name in names if "/layer." in name and "/wo/" not in name],
            per_channel=True,
            weight_type=types.QUInt8 if unsigned else types.QInt8,
            reduce_range=not unsigned,
        )


def _load(kind: str, folder: Path, **more: Any) -> Any:
    """ONNX Runtime recognises attention only where it is written out: `eager`."""
    with quiet_transformers():
        model = getattr(require("transformers"), kind).from_pretrained(
            folder, local_files_only=True, dtype=require("torch").float32,
            attn_implementation="eager", **more,
        )  # fmt: skip
    size = sum(weight.nbytes for weight in model.parameters())
    if size > MAX_BYTES:
        raise InputError(
            f"{size / 2**30:.1f} GB of weights do not fit into one ONNX file",
            hint="models of up to 2 GB can be exported",
        )
    return model.eval()


def _bert_inputs(folder: Path) -> list[str]:
    segments = read_config(folder).get("type_vocab_size", 2) > 1
    return ["input_ids", "attention_mask", *(["token_type_ids"] if segments else [])]


def _first_output(model: Any) -> Callable[..., Tensor]:
    run = model.forward
    return lambda *inputs: run(*inputs, return_dict=False)[0]


def _first_step(model: Any, t5: T5, ids: tuple[int, int]) -> Callable[..., Tensor]:
    """The encoder, one decoder step, and the logits of two words."""
    rows = (t5.output[list(ids)] * t5.output_scale).T

    def forward(input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        texts = model.encoder(input_ids, attention_mask, return_dict=False)[0]
        start = require("torch").full_like(input_ids[:, :1], t5.start_token)
        states = model.decoder(
            start, encoder_hidden_states=texts, encoder_attention_mask=attention_mask,
            use_cache=False, return_dict=False,
        )  # fmt: skip
        return states[0][:, 0] @ rows

    return forward


def _trace(
    path: Path,
    model: Any,
    forward: Callable[..., Tensor],
    inputs: list[str],
    output: str,
    facts: Mapping[str, str],
) -> None:
    torch, onnx = require("torch"), require("onnx")
    model.forward = forward
    example = torch.ones(len(inputs), 2, 7, dtype=torch.int64)
    example[1, 1, 5:] = 0
    if len(inputs) == 3:
        example[2] = 0
    shapes = {name: {0: "sequences", 1: "tokens"} for name in inputs}
    last = {0: "sequences"} | ({1: "tokens"} if output == "last_hidden_state" else {})
    with _quiet(), torch.inference_mode():
        torch.onnx.export(
            model, tuple(example), path, input_names=inputs, output_names=[output],
            dynamic_axes={**shapes, output: last}, opset_version=OPSET, dynamo=False,
        )  # fmt: skip
    written = onnx.load(path)
    onnx.helper.set_model_props(written, dict(facts))
    onnx.save(written, path)


@contextmanager
def _quiet() -> Iterator[None]:
    """Neither warnings about the exporter itself nor a handler left at the root of `logging`."""
    root, handler = logging.getLogger(), logging.NullHandler()
    root.addHandler(handler)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        root.removeHandler(handler)
