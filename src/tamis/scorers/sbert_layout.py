"""What sentence-transformers' files say of a folder: its modules, prompts, lengths, activation.

A folder has modules one after the other (`modules.json`); the first may be a Router, which has
other modules for queries and for documents. Folders without that file are a transformer alone.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tamis.backends.pooling import POOLINGS
from tamis.backends.protocols import KINDS
from tamis.backends.tokens import json_of
from tamis.errors import InputError

Task = Literal["query", "document"]
Module = tuple[str, Path]
"""The kind of a module and its folder."""
LAYERS = ("Dense", "Normalize", "LayerNorm")
SUPPORTED_MODULES = ("Transformer", "Pooling", *LAYERS, "LogitScore", "Router")
"""The modules that tamis runs; embeddings get length one, with or without Normalize."""
NO_EFFECT = ("Dropout",)
DEFAULT_POOLING_FOLDER = "1_Pooling"
PROMPT_NAMES: Mapping[Task, tuple[str, ...]] = {
    "query": ("query",),
    "document": ("document", "passage", "corpus"),
}
LEGACY_MODES = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""In the order in which their vectors follow each other."""


@dataclass(frozen=True)
class EncoderLayout:
    """How texts of one task become embeddings."""

    transformer: Path
    """The folder with the config, the tokenizer and the weights."""
    pooling_config: Mapping[str, Any]
    layers: tuple[Module, ...] = ()
    prompt: str = ""
    truncate_dim: int | None = None

    @property
    def pooling(self) -> str | None:
        """How token vectors are pooled, if the folder says."""
        return pooling_mode(self.pooling_config)

    @property
    def include_prompt(self) -> bool:
        """Whether the tokens of the prompt are pooled, too."""
        return bool(self.pooling_config.get("include_prompt", True))

    @property
    def parts(self) -> tuple[Any, ...]:
        """What tells two encoders apart, but for the prompt."""
        return self.transformer, self.pooling, self.include_prompt, self.layers

    @property
    def module_folders(self) -> list[Path]:
        """The folders beside the transformer's that hold weights."""
        return [path for name, path in self.layers if name in ("Dense", "LayerNorm")]


def encoder_layout(folder: Path, task: Task) -> EncoderLayout:
    """How a folder encodes queries, or documents."""
    modules = [
        module for module in modules_of(folder, task) if module[0] not in ("LogitScore", *NO_EFFECT)
    ]
    transformer = next((path for name, path in modules if name == "Transformer"), folder)
    pooling = next((path for name, path in modules if name == "Pooling"), None)
    config = sbert_config(folder)
    if pooling is None and not modules:
        pooling = folder / DEFAULT_POOLING_FOLDER
    return EncoderLayout(
        transformer,
        _read(pooling / "config.json") if pooling else {},
        tuple(module for module in modules if module[0] in LAYERS),
        prompt_of(config, task),
        config.get("truncate_dim"),
    )


def prompt_of(config: Mapping[str, Any], task: Task) -> str:
    """What stands before every query, or every document: the first prompt of the names that
    sentence-transformers knows for the task, else the default prompt.

    >>> prompt_of({"prompts": {"query": "query: ", "passage": "passage: "}}, "document")
    'passage: '
    >>> prompt_of({"prompts": {"all": "text: "}, "default_prompt_name": "all"}, "query")
    'text: '
    """
    return _first_prompt(config, (*PROMPT_NAMES[task], config.get("default_prompt_name")))


def prompt_of_pairs(folder: Path) -> str:
    """What a cross-encoder's folder says stands before the query of every pair: its default prompt,
    and no other. As in sentence-transformers, a folder that lists no modules says nothing.
    """
    config = sbert_config(folder) if modules_of(folder) else {}
    return _first_prompt(config, [config.get("default_prompt_name")])


def _first_prompt(config: Mapping[str, Any], names: Iterable[str | None]) -> str:
    prompts = config.get("prompts") or {}
    return next((str(prompts[name]) for name in names if prompts.get(name) is not None), "")


def sbert_config(folder: Path) -> dict[str, Any]:
    """The settings of a folder of sentence-transformers; empty for another."""
    return _read(folder / "config_sentence_transformers.json")


def pooling_mode(config: Mapping[str, Any]) -> str | None:
    """How token vectors are pooled by the config of a pooling.

    >>> pooling_mode({"pooling_mode": ["mean", "max"]}), pooling_mode({})
    ('mean+max', None)
    >>> pooling_mode({"pooling_mode_max_tokens": True, "pooling_mode_cls_token": True})
    'cls+max'
    """
    modes = config.get("pooling_mode") or [
        mode for name, mode in LEGACY_MODES.items() if config.get(name) is True
    ]
    names = [modes] if isinstance(modes, str) else list(modes)
    unknown = [name for name in names if name not in POOLINGS]
    if unknown:
        raise InputError(
            f"token vectors are pooled by {unknown[0]!r}, which tamis does not do",
            hint=f"it pools by {', '.join(POOLINGS)}",
        )
    return "+".join(names) or None


def max_seq_length(layout: EncoderLayout, task: Task) -> int | None:
    """The length in tokens at which a folder says texts are truncated, if it says."""
    for folder in (layout.transformer, layout.transformer.parent):
        config = _read(folder / "sentence_bert_config.json")
        length = config.get(f"{task}_length") or config.get("max_seq_length")
        if length:
            return int(length)
        if config:
            return None
    return None


def modules_of(folder: Path, task: Task = "query") -> list[Module]:
    """The modules of a folder for a task, in order; none where it does not list them."""
    path = folder / "modules.json"
    if not path.is_file():
        return []
    try:
        listed = [(str(m["type"]), folder / str(m["path"])) for m in json.loads(path.read_text())]
    except (ValueError, TypeError, KeyError):
        raise InputError(f"{path} lists no modules", hint="copy the folder again") from None
    modules: list[Module] = []
    for kind, place in listed:
        name = _check(folder, kind)
        modules += _route(folder, place, task) if name == "Router" else [(name, place)]
    return modules


def _check(folder: Path, kind: str) -> str:
    """The name of a module's kind, if tamis runs it."""
    name = kind.rpartition(".")[2]
    known = name in SUPPORTED_MODULES or name in NO_EFFECT or name == "Asym"
    if not known or not kind.startswith("sentence_transformers."):
        raise InputError(
            f"{folder} has a module that tamis does not run: {kind}",
            hint=f"tamis runs a {', a '.join(KINDS)} with these modules only: "
            f"{', '.join(SUPPORTED_MODULES)}",
        )
    return "Router" if name == "Asym" else name


def _route(folder: Path, place: Path, task: Task) -> list[Module]:
    """The modules that a Router runs for a task."""
    config = _read(place / "router_config.json") or _read(place / "config.json")
    try:
        structure, types = config["structure"], config["types"]
        parameters = config.get("parameters") or {}
        routes = {
            ast.literal_eval(key): name
            for key, name in (parameters.get("route_mappings") or {}).items()
        }
        keys = ((task, "text"), (task, None), (None, "text"), (None, None))
        route = next((routes[key] for key in keys if key in routes), None)
        default = parameters.get("default_route") or next(iter(structure))
        names = [name for name in (route, task, "text", default) if name in structure]
        return [(_check(folder, types[name]), place / name) for name in structure[names[0]]]
    except (KeyError, TypeError, ValueError, SyntaxError, StopIteration, IndexError):
        raise InputError(
            f"{place} has a Router without routes", hint="copy the folder again"
        ) from None


def activation_of(folder: Path, config: Mapping[str, Any]) -> str | None:
    """The activation that a cross-encoder's folder names for its output, if it names one."""
    own = config.get("sentence_transformers")
    for name in (
        sbert_config(folder).get("activation_fn") if modules_of(folder) else None,
        own.get("activation_fn") if isinstance(own, dict) else None,
        config.get("sbert_ce_default_activation_function"),
    ):
        if name:
            return str(name)
    return None


def pooling_folder(folder: Path) -> Path:
    """Where a folder says how token vectors are pooled."""
    pooling = [path for name, path in modules_of(folder) if name == "Pooling"]
    return pooling[0] if pooling else folder / DEFAULT_POOLING_FOLDER


def transformer_folder(folder: Path, task: Task = "query") -> Path:
    """The folder in a folder that holds the config, the tokenizer and the weights."""
    return next((path for name, path in modules_of(folder, task) if name == "Transformer"), folder)


def _read(path: Path) -> dict[str, Any]:
    return json_of(path) if path.is_file() else {}
