"""Where a model was opened from: what its spec says, so that the same weights are opened again."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from tamis.backends.onnx import ONNX_FILES, export_files
from tamis.backends.protocols import Backend, Kind
from tamis.backends.weight_digests import Digests, digest_of
from tamis.backends.weights import weight_files
from tamis.errors import InputError
from tamis.registry import absolute, python_spec
from tamis.scorers.model_manifest import find_model_manifest
from tamis.scorers.sbert_layout import encoder_layout
from tamis.types import Spec
from tamis.types.pipeline import SPEC_VERSION


@dataclass(frozen=True)
class Origin:
    """A model folder, what runs it, and what was set by hand instead of read from it."""

    kind: Kind
    folder: Path
    backend: Backend
    settings: Mapping[str, Any] = field(default_factory=dict)
    dtype: str = "float32"
    """The precision, which changes scores; where a model runs does not, and is not kept."""
    name: str | None = None
    """The installed package or hub id that stands for the folder, if one does."""

    @classmethod
    def of(
        cls, kind: Kind, folder: Path, backend: Backend, dtype: str = "float32", **settings: Any
    ) -> Origin:
        """The origin of a model in a folder; settings that are None were not set by hand."""
        by_hand = {name: value for name, value in settings.items() if value is not None}
        return cls(kind, absolute(folder), backend, by_hand, dtype)

    def with_name(self, name: str) -> Origin:
        """The same under the name of a package or a hub id, which holds on any machine."""
        return replace(self, name=name)

    @cached_property
    def weights(self) -> Digests:
        """The SHA-256 of each file of weights that is read, by its name in the folder."""
        return {name: digest_of(self.folder, file) for name, file in self.weight_files().items()}

    @property
    def identity(self) -> tuple[str, ...]:
        """The SHA-256 of the weights, the same for torch and for its export in full precision."""
        if self.backend == "onnx":
            with suppress(InputError):  # there is nothing but the export
                files = files_read(self.folder, "fast").values()
                return tuple(sorted(digest_of(self.folder, path) for path in files))
        return tuple(sorted(self.weights.values()))

    def weight_files(self) -> dict[str, Path]:
        """The files of weights that are read, by their names in the folder."""
        return files_read(self.folder, self.backend)

    def spec(self) -> Spec:
        """Plain JSON from which the model can be opened again."""
        place = {"path": str(self.folder)} if self.name is None else {"name": self.name}
        return {
            "scorer": self.kind,
            "version": SPEC_VERSION,
            **place,
            "backend": self.backend,
            **({} if self.dtype == "float32" else {"dtype": self.dtype}),
            "weights": dict(self.weights),
            "settings": dict(self.settings),
        }


def files_read(folder: Path, backend: Backend) -> dict[str, Path]:
    """The files of weights that a back end reads of a model folder, by their names in it."""
    layouts = [encoder_layout(folder, task) for task in ("query", "document")]
    places = list(dict.fromkeys(layout.transformer for layout in layouts))
    paths = [file for place in places for file in _weights(place, backend)]
    modules = dict.fromkeys(path for layout in layouts for path in layout.module_folders)
    paths += [file for module in modules for file in weight_files(module)]
    manifest = find_model_manifest(folder)
    if manifest and manifest.documents:
        paths += files_read(folder / manifest.documents, backend).values()
    return {path.relative_to(folder).as_posix(): path for path in paths}


def _weights(folder: Path, backend: Backend) -> list[Path]:
    return export_files(folder, backend) if backend in ONNX_FILES else weight_files(folder)


def model_spec(origin: Origin | None, scorer: object) -> Spec:
    """The spec of a model; of kind `python` where it was not opened from a folder."""
    return python_spec("scorer", scorer) if origin is None else origin.spec()
