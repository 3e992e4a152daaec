"""From the name a user gives to a scorer that re-ranks, with what tells it from any other."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict, Unpack

import xxhash

from tamis.backends.protocols import Backend
from tamis.durable import folder_exists
from tamis.errors import InputError, command
from tamis.manifest import read_manifest
from tamis.models.alignment_specs import alignment
from tamis.models.base_models import find_base
from tamis.models.folder import export_backend, open_scorer
from tamis.models.model_kinds import kind_of, model_config
from tamis.models.scorer_specs import name_scorer
from tamis.models.smoke_test import open_and_test
from tamis.pipeline.document_lookup import Documents
from tamis.scorers.bi_encoder import BiEncoder
from tamis.scorers.cross_encoder import CrossEncoder
from tamis.scorers.lexical import Lexical
from tamis.search import Index
from tamis.types import Scorer

BLOCK = 1 << 20


@dataclass(frozen=True, eq=False)
class Ranker:
    """A scorer, what it is called, and a digest that changes whenever its scores may.

    Without an `identity` its scores cannot be told from another's, or are not worth keeping.
    """

    scorer: Scorer
    name: str
    identity: str | None


LEXICAL, ALIGNMENT = "lexical", "alignment:"


def open_ranker(
    name: str | Path,
    *,
    threads: int | None = None,
    documents: Documents | None = None,
    backend: Backend | None = None,
    device: str = "auto",
    dtype: str = "auto",
    trust_remote_code: str | Path | bool = False,
) -> Ranker:
    """The scorer that a name stands for: a model folder, a plain Hugging Face folder that says
    what it is, an installed model package, or a hub id.

    Two need no model but the statistics of `documents`: `lexical`, which needs an index, and
    `alignment:VECTORS` with the file or folder of word vectors. Their scores are not worth keeping.

    `backend`, `device` and `dtype` say what runs a model and where; see `open_scorer`. Code that a
    model brings is run only where `trust_remote_code` names that very model (or is true).
    """
    if backend and (name == LEXICAL or str(name).startswith(ALIGNMENT)):
        raise InputError(f"{name} has no back end to choose", hint="leave the back end out")
    if name == LEXICAL:
        if not isinstance(documents, Index):
            raise InputError(
                "lexical scores need the statistics of an index", hint="tamis index, then -c INDEX"
            )
        return Ranker(Lexical(documents), LEXICAL, None)
    if str(name) in (ALIGNMENT, ALIGNMENT.rstrip(":")):
        raise InputError("alignment needs word vectors", hint="name them: alignment:vectors.txt")
    if str(name).startswith(ALIGNMENT) and documents is not None:
        vectors = Path(str(name).removeprefix(ALIGNMENT)).expanduser()
        return Ranker(alignment(vectors, documents), str(name), None)
    trusted = is_trusted(name, trust_remote_code)
    folder = find_model(name, trust_remote_code=trusted)
    options: RunOptions = {
        "threads": threads, "backend": backend, "device": device, "dtype": dtype,
        "trust_remote_code": trusted,
    }  # fmt: skip
    scorer = name_scorer(open_model_folder(folder, **options), name)
    return Ranker(scorer, str(name), digest(folder, type(scorer).__name__, *_how(scorer)))


def _how(scorer: Scorer) -> list[str]:
    """What changes a score beside the files: the back end, and a precision that is not float32."""
    runtime = getattr(scorer, "runtime", None)
    if runtime is None:
        return []
    return [runtime.backend, *([runtime.dtype] if runtime.dtype != "float32" else [])]


def is_trusted(name: str | Path, trust_remote_code: str | Path | bool) -> bool:
    """Whether a user trusts the code of this very model.

    >>> is_trusted("org/model", "org/model"), is_trusted("org/model", "org/other")
    (True, False)
    """
    if isinstance(trust_remote_code, bool):
        return trust_remote_code
    first, second = (Path(place).expanduser() for place in (name, trust_remote_code))
    return str(name) == str(trust_remote_code) or first.resolve() == second.resolve()


class RunOptions(TypedDict, total=False):
    """What runs a model, and where."""

    threads: int | None
    backend: Backend | None
    device: str
    dtype: str
    trust_remote_code: bool


def find_model(name: str | Path, *, trust_remote_code: bool = False) -> Path:
    """The folder of a model named by a folder, an installed model package or a hub id."""
    folder = Path(name).expanduser()
    if folder_exists(folder) and read_manifest(folder) is not None:
        return folder
    return find_base(name, trust_remote_code=True) if trust_remote_code else find_base(name)


def open_model_folder(folder: Path, **options: Unpack[RunOptions]) -> Scorer:
    """The scorer in a folder of tamis or of Hugging Face, once it has scored something."""
    return open_and_test(lambda: _open(folder, options), folder)


def _open(folder: Path, options: RunOptions) -> Scorer:
    if read_manifest(folder) is not None:
        return open_scorer(folder, **options)
    config = model_config(folder)
    if not options.get("backend"):
        options = {**options, "backend": export_backend(folder)}
    try:
        kind = kind_of(folder, config)
    except InputError as error:
        hint = f"{error.hint}; {_import_hint(folder, '--kind KIND')}"
        raise InputError(str(error), hint=hint) from None
    if kind == "cross-encoder":
        return CrossEncoder.open(folder, **options)
    if kind == "bi-encoder":
        return BiEncoder.open(folder, **options)
    raise InputError(
        f"{folder} is a language model that does not say which two words to compare",
        hint=_import_hint(folder, "--target-words true false"),
    )


def _import_hint(folder: Path, option: str) -> str:
    new = f"{folder.resolve().name}-imported"
    return f"use {new} after: {command('import-model', folder, '-o', new, *option.split())}"


def digest(folder: Path, *more: str) -> str:
    """A hash of every file in a model folder and of what else decides the scores."""
    hasher = xxhash.xxh3_128("\0".join(more).encode())
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if path.is_dir() or any(name.startswith((".", "__")) for name in inside.parts):
            continue
        hasher.update(f"\0{inside}\0{path.stat().st_size}\0".encode())
        with path.open("rb") as file:
            while block := file.read(BLOCK):
                hasher.update(block)
    return str(hasher.hexdigest())
