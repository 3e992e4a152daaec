"""Reading a Hugging Face folder: its config, its weights, and whether they fit together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from tamis.backends.tokens import Tokens, json_of
from tamis.backends.weight_digests import check_weights
from tamis.errors import InputError, command, require

Tensor = Any
Weights = dict[str, Tensor]
MAX_PADDING_ROWS, MAX_PADDING_SHARE = 1024, 20
"""Rows of embeddings that no id uses: so many, or one in twenty."""
LFS_POINTER = b"version https://git-lfs"


@dataclass(frozen=True, eq=False)
class Loaded:
    """What a model folder holds: the config, the weights in float32, the tokenizer."""

    folder: Path
    config: Mapping[str, Any]
    weights: Weights
    tokens: Tokens


def load(folder: Path) -> Loaded:
    """Everything in a model folder, checked."""
    config = read_config(folder)
    require("torch")  # before tokenizers, which the same extra brings
    tokens = Tokens.open(folder)
    layers = config.get("num_hidden_layers")
    weights = read_weights(folder)
    if isinstance(layers, int):
        check_layers(folder, (name for name in weights if _layer(name) >= layers))
    check_embeddings(folder, tokens, config, weights)
    return Loaded(folder, config, weights, tokens)


def read_config(folder: Path) -> dict[str, Any]:
    """The config.json of a folder."""
    path = folder / "config.json"
    if not path.is_file():
        refuse_adapter(folder)
        problem = "has no config.json" if folder.is_dir() else "is not a folder"
        raise InputError(
            f"{folder} {problem}",
            hint="a model is a Hugging Face folder: config, tokenizer, weights",
        )
    config = json_of(path)
    if "model_type" not in config:
        raise InputError(f"{path} names no model_type", hint="is it a transformers config?")
    return config


WIDTH_NAMES = ("hidden_size", "d_model", "dim", "n_embd")
"""What configs call the number of dimensions of a token's vector."""


def width_of(config: Mapping[str, Any]) -> int:
    """The number of dimensions of a token's vector.

    >>> width_of({"model_type": "distilbert", "dim": 768})
    768
    """
    return int(next(config[name] for name in WIDTH_NAMES if name in config))


ADAPTER_CONFIG = "adapter_config.json"


def refuse_adapter(folder: Path) -> None:
    """Refuse a folder of LoRA adapters alone, and say how they are merged with their base."""
    path = folder / ADAPTER_CONFIG
    if path.is_file():
        base = json_of(path).get("base_model_name_or_path") or "not named"
        new = f"{folder.resolve().name}-merged"
        raise InputError(
            f"{folder} holds LoRA adapters only; the model they belong to is {base}",
            hint=f"merge the two: {command('import-model', folder, '-o', new)}, then use {new}",
        )


def weight_files(folder: Path) -> list[Path]:
    """The files the weights lie in."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        places = json_of(index).get("weight_map")
        if not isinstance(places, dict):
            raise InputError(f"{index} names no files of weights", hint="copy the folder again")
        names = sorted(set(places.values()))
        files = [folder / name for name in names]
    else:
        files = [folder / "model.safetensors"]
        old = folder / "pytorch_model.bin"
        if not files[0].is_file() and old.is_file():
            files = [old]
    for file in files:
        if not file.is_file():
            refuse_adapter(folder)
            raise InputError(
                f"{folder} has no weights: there is no {file.name}",
                hint="save the model with save_pretrained, which writes model.safetensors",
            )
    return files


def read_weights(folder: Path) -> Weights:
    """The weights of a folder by name, as float32, all finite."""
    torch = require("torch")
    weights: Weights = {}
    for file in weight_files(folder):
        check_weights(folder, file)
        for name, tensor in read_file(file).items():
            weights[name] = tensor.float() if tensor.is_floating_point() else tensor
            if not bool(torch.isfinite(weights[name]).all()):
                raise InputError(
                    f"{file}: {name} has values that are not numbers (NaN or infinite)",
                    hint="the training failed or the file is damaged: take an earlier copy",
                )
    return weights


def read_file(file: Path) -> Weights:
    """The tensors in a file of weights; nothing that is pickled is run."""
    torch, damaged = require("torch"), require("safetensors").SafetensorError
    try:
        weights: Weights = (
            torch.load(file, map_location="cpu", weights_only=True)
            if file.suffix == ".bin"
            else require("safetensors.torch").load_file(file)
        )
    except (damaged, UnpicklingError, EOFError, RuntimeError) as problem:
        pickled = isinstance(problem, UnpicklingError)
        reason = "it is no file of weights" if pickled else str(problem).split("\n")[0][:200]
        raise _damaged(file, reason) from None
    return weights


def check_header(file: Path) -> None:
    """Refuse a safetensors file that is not whole; its tensors are not read."""
    if file.suffix == ".safetensors":
        safetensors = require("safetensors")
        try:
            with safetensors.safe_open(file, "pt"):
                pass
        except safetensors.SafetensorError as problem:
            raise _damaged(file, str(problem)) from None


def _damaged(file: Path, reason: str) -> InputError:
    with file.open("rb") as stream:
        is_pointer = stream.read(len(LFS_POINTER)) == LFS_POINTER
    if is_pointer:
        return InputError(
            f"{file} only says where Git LFS has the weights", hint="fetch them: git lfs pull"
        )
    return InputError(f"{file} cannot be read: {reason}", hint="the file is damaged: copy it again")


def open_tokens(folder: Path, config: Mapping[str, Any]) -> Tokens:
    """The tokenizer of a folder whose weights are not read: checked against its config."""
    tokens, rows = Tokens.open(folder), config.get("vocab_size")
    if isinstance(rows, int):
        check_rows(folder, tokens, rows)
    return tokens


LAYER = re.compile(r"(?:^|\.)(?:layers?|layer_groups|h|block|blocks)\.(\d+)\.")


def _layer(name: str) -> int:
    """The number of the layer that a weight is of; -1 for another."""
    found = LAYER.search(name)
    return int(found[1]) if found else -1


def check_layers(folder: Path, unexpected: Iterable[str]) -> None:
    """Refuse weights of layers that the config does not have, which would be left out unsaid."""
    layers = [name for name in sorted(unexpected) if LAYER.search(name) and "decoder." not in name]
    if layers:
        raise InputError(
            f"{folder}: the weights have {layers[0]}, for which config.json has no layer",
            hint="config.json and weights are of different models: copy both from the same place",
        )


def check_embeddings(
    folder: Path, tokens: Tokens, config: Mapping[str, Any], weights: Weights
) -> None:
    """Refuse weights that were not made for this tokenizer, or not for this config."""
    names = ("word_embeddings.weight", "tok_embeddings.weight", "shared.weight",
             "embed_tokens.weight", "wte.weight")  # fmt: skip
    name = next((name for name in weights if name.endswith(names)), None)
    if name is None:
        return
    check_rows(folder, tokens, len(weights[name]))
    rows, width = (int(size) for size in weights[name].shape)
    said = next((config[key] for key in WIDTH_NAMES if key in config), width)
    if (config.get("vocab_size", rows), said) != (rows, width):
        raise misshapen(folder, name)


def misshapen(folder: Path, name: str) -> InputError:
    """What to say of a weight that the config describes otherwise."""
    return InputError(
        f"{folder}: {name} has another shape than config.json says",
        hint="config.json and weights are of different models: copy both from the same place",
    )


def check_rows(folder: Path, tokens: Tokens, rows: int) -> None:
    """Refuse a tokenizer that was not made for a model with so many embeddings."""
    padding = max(MAX_PADDING_ROWS, tokens.size // MAX_PADDING_SHARE)
    if not tokens.size <= rows <= tokens.size + padding:
        raise InputError(
            f"{folder}: the tokenizer has {tokens.size} ids, the weights have {rows} embeddings",
            hint="tokenizer and weights are of different models: copy both from the same place",
        )


def take(weights: Weights, name: str, folder: Path) -> Tensor:
    """One weight by name, or an error that says which is missing."""
    if name not in weights:
        raise InputError(
            f"{folder}: the weights have no {name}",
            hint="is this the kind of model you think it is? config.json and weights disagree",
        )
    return weights[name]
