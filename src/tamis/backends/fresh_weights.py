"""A model of transformers as training starts with it: weights of a folder, and fresh ones beside
them where the folder has no head, or is to get another. Fresh weights are those that transformers
itself starts from, drawn with a seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tamis.backends.network import (
    Network,
    check_loaded,
    load_model,
    network_of,
    quiet_transformers,
)
from tamis.backends.protocols import Family, Kind
from tamis.errors import InputError, require

POOLER = "pooler."
"""How the name of a pooler goes on, which is fresh where a base without a head has none."""


@dataclass(frozen=True)
class FreshWeights:
    """What is drawn instead of read, and what a config is told."""

    outputs: int | None = None
    """Of a cross-encoder; None where there are none."""
    dropout: float | None = None
    """None: as the folder's config says."""
    fresh_head: bool = False
    random_weights: bool = False
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Start:
    """A model to train, which of its parameters are the head, and which of its weights the folder
    did not have and nothing uses.
    """

    network: Network
    head_names: frozenset[str]
    unused: frozenset[str]


def open_to_train(
    folder: Path,
    auto_class: str,
    device: str,
    trust: bool,
    kind: Kind,
    fresh: FreshWeights,
    family: Family | None = None,
) -> Start:
    """The model of a folder in float32, on a device."""
    config = _config(folder, trust, fresh)
    unused = frozenset[str]()
    with _seeded(fresh.seed):
        if fresh.random_weights:
            model = _from_config(auto_class, config, trust)
            head = _head_of(model)
        else:
            model, info = load_model(folder, auto_class, "float32", trust, kind, config=config)
            if kind == "cross-encoder":
                drawn = _drawn(folder, model, info, fresh)
                if drawn:
                    _take(model, _from_config(auto_class, model.config, trust), drawn)
                head = _head_of(model) | drawn
            else:
                check_loaded(folder, info, kind, family)
                head, unused = frozenset(), frozenset(info["missing_keys"])
    names = {name for name, _ in model.named_parameters()}
    head = head & names if kind == "cross-encoder" else frozenset()
    return Start(network_of(folder, model, device, kind, trust), head, unused)


def _drawn(
    folder: Path, model: Any, info: Mapping[str, Any], fresh: FreshWeights
) -> frozenset[str]:
    """The weights of a cross-encoder that are drawn: those that a head lacks, or all of a head."""
    head = _head_of(model)
    absent = {name for name in info["missing_keys"] if name in head or POOLER in name}
    drawn = head if fresh.fresh_head else frozenset[str]()
    faults = {
        "missing_keys": set(info["missing_keys"]) - absent,
        "mismatched_keys": [item for item in info["mismatched_keys"] if item[0] not in drawn],
    }
    check_loaded(folder, {**info, **faults}, "cross-encoder")
    return frozenset(absent | drawn)


def _head_of(model: Any) -> frozenset[str]:
    """The weights that are not part of the body that other heads share."""
    body = getattr(model, model.base_model_prefix, None)
    if body is None:
        return frozenset()
    inside = {id(value) for value in body.state_dict(keep_vars=True).values()}
    weights = model.state_dict(keep_vars=True)
    return frozenset(name for name, value in weights.items() if id(value) not in inside)


def _take(model: Any, other: Any, names: frozenset[str]) -> None:
    """Copy the weights of these names from one model to another."""
    torch = require("torch")
    own, drawn = model.state_dict(keep_vars=True), other.state_dict()
    with torch.no_grad():
        for name in sorted(names):
            own[name].copy_(drawn[name])


def _config(folder: Path, trust: bool, fresh: FreshWeights) -> Any:
    auto = require("transformers").AutoConfig
    with quiet_transformers():
        config = auto.from_pretrained(folder, local_files_only=True, trust_remote_code=trust)
    if fresh.outputs is not None:
        config.num_labels = fresh.outputs
    if fresh.dropout is not None:
        for part in {id(part): part for part in (config, config.get_text_config())}.values():
            set_dropout(part, fresh.dropout)
    return config


def set_dropout(config: Any, share: float) -> None:
    """Let a config name this dropout everywhere; whole layers are left in.

    >>> from types import SimpleNamespace
    >>> config = SimpleNamespace(attention_dropout=0.1, encoder_layerdrop=0.1, classifier_dropout=0)
    >>> set_dropout(config, 0.2)
    >>> config.attention_dropout, config.encoder_layerdrop, config.classifier_dropout
    (0.2, 0.1, 0.2)
    """
    for name, value in list(vars(config).items()):
        is_share = isinstance(value, int | float) and not isinstance(value, bool)
        if "drop" in name and "layerdrop" not in name and is_share:
            setattr(config, name, share)


def _from_config(auto_class: str, config: Any, trust: bool) -> Any:
    """The model of a config with fresh weights."""
    auto = getattr(require("transformers"), auto_class)
    try:
        with quiet_transformers():
            return auto.from_config(config, trust_remote_code=trust).float()
    except (ValueError, KeyError, RuntimeError) as error:
        raise InputError(
            f"transformers makes no {auto_class} of type {config.model_type!r}: "
            f"{str(error).splitlines()[0][:200]}",
            hint="take another base, or a recipe for another kind of model",
        ) from error


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Torch's random numbers from a seed inside the block, and as before after it."""
    torch = require("torch")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
