"""Exporting a model to ONNX, in float and in 8-bit integers, and refusing what ranks otherwise."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tamis.backends._t5 import T5
from tamis.backends.onnx import ONNX_FILES
from tamis.backends.protocols import Backend
from tamis.backends.weights import weight_files
from tamis.cores import processor
from tamis.durable import new_folder
from tamis.errors import InputError, OutputError, require
from tamis.manifest import NAME
from tamis.models.export_sample import Sample, ScoredSample, check_sample, pydocs_sample
from tamis.models.folder import open_model, open_scorer, torch_backend
from tamis.models.onnx_files import write_float, write_int8
from tamis.models.smoke_test import open_and_test
from tamis.scorers.bi_encoder import BiEncoder
from tamis.scorers.model_manifest import EXPORTS, ModelManifest, write_model_manifest
from tamis.scorers.target_words import TargetWords
from tamis.types import Scorer

ROUNDING_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Tolerance:
    """How far an export may lie from the model it was made of.

    In float: the largest difference of a score. In 8-bit integers: the least mean overlap of the
    top 10 with the model's, and by how much the measure may fall.
    """

    difference: float = 1e-4
    overlap: float = 0.9
    drop: float = 0.005


@dataclass(frozen=True)
class Export:
    """An ONNX file compared with the model it was made of, on so many queries."""

    backend: Backend
    megabytes: float
    queries: int
    difference: float
    """The largest difference of a score."""
    overlap: float | None
    """The mean overlap of the top 10 with the model's, over queries with more candidates."""
    before: float | None
    """The measure of the model's ranking."""
    after: float | None
    """The measure of the export's."""
    speed: float
    """How many times the documents that torch scores in the same time of the processors."""
    processor: str
    """Where that was measured."""
    refused: str = ""
    """Why it was not kept; empty where it was."""


def export(
    folder: str | Path,
    out: str | Path,
    sample: Sample | None = None,
    *,
    int8: bool | None = None,
    tolerance: Tolerance | None = None,
    threads: int | None = None,
    force: bool = False,
    log: Callable[[str], object] = lambda words: None,
) -> list[Export]:
    """Copy a model folder to `out` with the model in ONNX, and say how each file compares.

    What is compared are the scores of a sample of queries and documents; without one, of questions
    about Python's own documentation. A float file that differs is an error. A file in 8-bit
    integers that ranks otherwise is not kept, which is an error only if `int8` is true.
    """
    source, allowed = Path(folder), tolerance or Tolerance()
    for package in ("onnx", "onnxruntime", "torch"):
        require(package, "onnx", "torch")
    manifest = open_model(source)
    weight_files(source)
    backend = torch_backend(source, "cpu", "float32")
    scorer = open_and_test(
        lambda: open_scorer(source, threads=threads, backend=backend, device="cpu"), source
    )
    check_exportable(scorer, source)
    sample_used = check_sample(sample, int8 is not False) if sample else pydocs_sample()
    with new_folder(Path(out), force=force) as temporary_folder:
        shutil.copytree(
            source,
            temporary_folder,
            ignore=shutil.ignore_patterns(".*", NAME, *EXPORTS),
            dirs_exist_ok=True,
        )
        if manifest.documents:
            write_model_manifest(
                temporary_folder / manifest.documents, open_model(source / manifest.documents)
            )
        exporter = _Exporter(temporary_folder, manifest, scorer, sample_used, allowed, threads, log)
        exports = list(exporter.exports(int8))
        write_model_manifest(temporary_folder, _add_exports(manifest, exports, sample_used))
    return exports


@dataclass(frozen=True, eq=False)
class _Exporter:
    """One model being exported into a folder."""

    folder: Path
    manifest: ModelManifest
    scorer: Scorer
    sample: Sample
    allowed: Tolerance
    threads: int | None
    log: Callable[[str], object]

    def exports(self, int8: bool | None) -> Iterator[Export]:
        """Write the files; those in 8-bit integers only until one is kept."""
        write_model_manifest(self.folder, self.manifest)
        for folder, _ in self.folders():
            (folder / "onnx").mkdir()
        self.log(f"scoring {len(self.sample.run.doc):,} documents of {self.sample.name} in torch")
        torch_scores = self.sample.score_with(self.scorer)
        export = self.write_and_compare("onnx", torch_scores)
        yield export
        if export.refused:
            raise OutputError(f"the float export {export.refused}", hint="please report this model")
        if int8 is False:
            return
        export = self.write_and_compare("onnx-int8", torch_scores)
        yield export
        if export.refused and int8:
            raise OutputError(
                f"the 8-bit export {export.refused}",
                hint="leave it out (--no-int8), or allow more (--min-overlap, --max-drop)",
            )

    def write_and_compare(self, backend: Backend, torch_scores: ScoredSample) -> Export:
        """Write one file, compare it, and remove it where it ranks otherwise."""
        self.log(f"{backend}: writing and comparing")
        files = [folder / ONNX_FILES[backend] for folder, _ in self.folders()]
        for path, (folder, scorer) in zip(files, self.folders(), strict=True):
            if backend == "onnx":
                write_float(path, scorer, folder)
            else:
                write_int8(path, folder / ONNX_FILES["onnx"], self.manifest.scorer)
        scorer_opened = open_scorer(self.folder, threads=self.threads, backend=backend)
        size = sum(path.stat().st_size for path in files) / 1e6
        export = compare(
            backend, size, torch_scores, self.sample.score_with(scorer_opened), self.allowed
        )
        if export.refused:
            for path in files:
                path.unlink()
        return export

    def folders(self) -> list[tuple[Path, Scorer]]:
        """The folder and its model; also that of documents, where there is one."""
        model_folders: list[tuple[Path, Scorer]] = [(self.folder, self.scorer)]
        if self.manifest.documents and isinstance(self.scorer, BiEncoder) and self.scorer.documents:
            model_folders.append((self.folder / self.manifest.documents, self.scorer.documents))
        return model_folders


def compare(
    backend: Backend,
    size: float,
    torch_scores: ScoredSample,
    export_scores: ScoredSample,
    allowed: Tolerance,
) -> Export:
    """An export's scores beside the model's; its files have so many megabytes."""
    export = Export(
        backend,
        size,
        len(torch_scores.run),
        float(np.abs(torch_scores.scores - export_scores.scores).max(initial=0)),
        torch_scores.overlap(export_scores),
        torch_scores.value,
        export_scores.value,
        export_scores.speed / torch_scores.speed,
        processor(),
    )
    return replace(export, refused=reason_to_refuse(export, allowed))


def reason_to_refuse(export: Export, allowed: Tolerance) -> str:
    """Why an export is too far from its model; empty where it is not.

    >>> int8 = Export("onnx-int8", 9.0, 30, 0.5, 0.85, 0.6, 0.6, 2.0, "AMD EPYC (AVX2)")
    >>> reason_to_refuse(int8, Tolerance())
    'shares 0.850 of the top 10 with float (0.9 is needed), in a sample of 30 queries'
    """
    if export.backend == "onnx":
        if export.difference <= allowed.difference:
            return ""
        return f"differs by {export.difference:.2g} in a score; {allowed.difference:g} is allowed"
    reasons = []
    if export.overlap is not None and export.overlap < allowed.overlap - ROUNDING_TOLERANCE:
        reasons.append(
            f"shares {export.overlap:.3f} of the top 10 with float ({allowed.overlap:g} is needed)"
        )
    if export.before is not None and export.after is not None:
        drop = export.before - export.after
        if drop > allowed.drop + ROUNDING_TOLERANCE:
            reasons.append(
                f"lowers the measure from {export.before:.4f} to {export.after:.4f} "
                f"(by {allowed.drop:g} at most is allowed)"
            )
    return f"{' and '.join(reasons)}, in a sample of {export.queries} queries" if reasons else ""


def check_exportable(scorer: Scorer, folder: Path) -> None:
    """Refuse a model that only transformers can run, or whose score needs every word."""
    if isinstance(scorer, TargetWords) and not isinstance(scorer.language_model, T5):
        raise InputError(
            f"{folder} is a {scorer.family} language model, which tamis cannot export",
            hint="cross-encoders, bi-encoders and T5 can be exported",
        )
    if isinstance(scorer, TargetWords) and scorer.how == "vocabulary":
        raise InputError(
            f"the score of {folder} needs the logits of all words; an export has those of two",
            hint="import the model with the score words",
        )


def _add_exports(manifest: ModelManifest, exports: list[Export], sample: Sample) -> ModelManifest:
    """The manifest with the accepted exports and how they compare."""
    accepted = {export.backend: _facts(export) for export in exports if not export.refused}
    measured = {
        "on": sample.name,
        "queries": len(sample.run),
        "documents": len(sample.run.doc),
        "measure": sample.measure,
    }
    return replace(
        manifest, facts={**manifest.facts, "exports": {**accepted, "measured": measured}}
    )


def _facts(export: Export) -> dict[str, Any]:
    left_out = ("backend", "refused")
    facts = {name: value for name, value in asdict(export).items() if name not in left_out}
    return {
        name: float(f"{value:.4g}") if isinstance(value, float) else value
        for name, value in facts.items()
        if value is not None
    }
