"""Folders with LoRA adapters only: the weights of a base and what was learnt beside them, merged.

A weight W with the adapters A and B becomes W + s · B A, where s is lora_alpha / r (over the square
root of r for rank-stabilised ones). Weights that were trained whole, such as a head, replace those
of the base. No other package is needed.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tamis.backends.tokens import json_of
from tamis.backends.weights import ADAPTER_CONFIG, Weights, read_file, read_weights
from tamis.errors import InputError, command, require
from tamis.models.base_models import find_base

ADAPTER_FILES = ("adapter_model.safetensors", "adapter_model.bin")
PREFIX = "base_model.model."
ARCHITECTURE_ENDINGS = {"SEQ_CLS": "ForSequenceClassification"}


def is_adapter(folder: Path) -> bool:
    """Whether a folder holds adapters without the model that they belong to."""
    own = any(any(folder.glob(name)) for name in ("model*.safetensors", "pytorch_model*.bin"))
    return (folder / ADAPTER_CONFIG).is_file() and not own


def describe_adapter(folder: Path) -> dict[str, str]:
    """A folder of adapters in words."""
    config = json_of(folder / ADAPTER_CONFIG)
    return {
        "model": "LoRA adapters, without the model they belong to",
        "base": base_of(config, folder),
        "rank": str(config.get("r")),
        "problems": "they run once they are merged with it: "
        + command("import-model", folder, "-o", f"{folder.resolve().name}-merged"),
    }


def base_of(config: Mapping[str, Any], folder: Path) -> str:
    """The model that adapters belong to."""
    name = config.get("base_model_name_or_path")
    if not name:
        raise InputError(
            f"{folder}/{ADAPTER_CONFIG} names no base model",
            hint="write base_model_name_or_path into it: a folder or a hub id",
        )
    return str(name)


@contextmanager
def with_base(folder: Path) -> Iterator[Path]:
    """A folder as it is; where it holds adapters only, for a while one merged with their base."""
    if not is_adapter(folder):
        yield folder
        return
    with TemporaryDirectory() as place:
        target = Path(place) / folder.resolve().name
        merge_adapter(folder, target)
        yield target


def merge_adapter(folder: Path, target: Path) -> None:
    """Write the base of adapters, merged with them, into a folder."""
    config = json_of(folder / ADAPTER_CONFIG)
    _check(config, folder)
    base = find_base(base_of(config, folder))
    weights = merged(read_weights(base), _adapters(folder), config, folder)
    ignored = shutil.ignore_patterns(".*", "*.safetensors", "*.bin", "*.index.json", "onnx")
    shutil.copytree(base, target, ignore=ignored, dirs_exist_ok=True)
    for file in folder.iterdir():
        kept = file.name.startswith("tokenizer") or file.name == "special_tokens_map.json"
        if kept:
            shutil.copy(file, target / file.name)
    _write_config(target, config, weights)
    contiguous = {name: weight.contiguous() for name, weight in weights.items()}
    write = require("safetensors.torch").save_file
    write(contiguous, target / "model.safetensors", metadata={"format": "pt"})


def merged(weights: Weights, adapters: Weights, config: Mapping[str, Any], folder: Path) -> Weights:
    """The weights of a base with adapters added.

    >>> import torch
    >>> base = {"layer.weight": torch.zeros(2, 2)}
    >>> name = "base_model.model.layer.lora_"
    >>> adapters = {f"{name}A.weight": torch.ones(1, 2), f"{name}B.weight": torch.ones(2, 1)}
    >>> merged(base, adapters, {"r": 1, "lora_alpha": 2}, Path("."))["layer.weight"].tolist()
    [[2.0, 2.0], [2.0, 2.0]]
    """
    result, used = dict(weights), set()
    for name, first in adapters.items():
        inner = name.removeprefix(PREFIX)
        if inner.endswith(".lora_A.weight"):
            second = adapters[name.replace(".lora_A.", ".lora_B.")]
            place = _find(result, inner.removesuffix(".lora_A.weight") + ".weight", folder)
            change = second.float() @ first.float() * _scale(config)
            weight = result[place]
            result[place] = weight + (change.T if config.get("fan_in_fan_out") else change)
            used |= {name, name.replace(".lora_A.", ".lora_B.")}
        elif ".lora_" not in inner:
            result[inner.replace(".modules_to_save", "")] = first.float()
            used.add(name)
    unused = sorted(adapters.keys() - used)
    if unused:
        raise InputError(
            f"{folder} has {unused[0]}, which tamis does not merge",
            hint="merge it with peft (merge_and_unload) and save the whole model",
        )
    return result


def _scale(config: Mapping[str, Any]) -> float:
    rank = int(config["r"])
    alpha = float(config.get("lora_alpha", rank))
    return float(alpha / rank**0.5 if config.get("use_rslora") else alpha / rank)


def _find(weights: Weights, name: str, folder: Path) -> str:
    """A weight of the base by its name in a model with a head, or without one."""
    if name in weights:
        return name
    ends = [known for known in weights if name.endswith(f".{known}") or known.endswith(f".{name}")]
    if len(ends) == 1:
        return ends[0]
    raise InputError(
        f"{folder} adapts {name}, which its base does not have",
        hint="are these the adapters of that base? copy both again",
    )


def _adapters(folder: Path) -> Weights:
    for name in ADAPTER_FILES:
        if (folder / name).is_file():
            return read_file(folder / name)
    raise InputError(
        f"{folder} has no {ADAPTER_FILES[0]}", hint="copy the folder again with all its files"
    )


def _check(config: Mapping[str, Any], folder: Path) -> None:
    kind = config.get("peft_type", "LORA")
    special = [name for name in ("use_dora", "alora_invocation_tokens") if config.get(name)]
    if kind != "LORA" or special or config.get("rank_pattern") or config.get("alpha_pattern"):
        raise InputError(
            f"{folder} holds adapters of a kind that tamis does not merge ({special or kind})",
            hint="merge it with peft (merge_and_unload) and save the whole model",
        )


def _write_config(target: Path, adapter: Mapping[str, Any], weights: Weights) -> None:
    """Name the architecture with a head, where the adapters bring one."""
    path = target / "config.json"
    config = json_of(path)
    ending = ARCHITECTURE_ENDINGS.get(str(adapter.get("task_type")))
    names = config.get("architectures") or [""]
    if ending and not str(names[0]).endswith(ending):
        heads = [w for n, w in weights.items() if n in ("score.weight", "classifier.weight")]
        stem = str(names[0]).removesuffix("ForCausalLM").removesuffix("ForMaskedLM")
        config["architectures"] = [stem.removesuffix("Model") + ending]
        if heads:
            labels = {str(number): f"LABEL_{number}" for number in range(len(heads[0]))}
            config["id2label"] = labels
            config["label2id"] = {label: int(number) for number, label in labels.items()}
    path.write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", "utf-8")
