"""The alignment by word vectors as a spec, and from a spec to the scorer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tamis.backends.weight_digests import sha256_of
from tamis.models.scorer_specs import check_weights
from tamis.pipeline.document_lookup import Documents
from tamis.pipeline.documents import all_documents, documents_spec
from tamis.registry import Opening, absolute, check_keys
from tamis.scorers.alignment import Alignment
from tamis.scorers.word_counts import WordCounts
from tamis.scorers.word_vectors import read_vectors
from tamis.types import Spec
from tamis.types.pipeline import SPEC_VERSION


@dataclass(frozen=True)
class AlignmentOrigin:
    """Where the word vectors of an alignment lie, and which documents its words are counted in."""

    vectors: Path
    documents: Documents

    def spec(self) -> Spec:
        """Plain JSON from which the alignment can be opened again."""
        weights = {name: sha256_of(file) for name, file in _vector_files(self.vectors).items()}
        return {
            "scorer": "alignment",
            "version": SPEC_VERSION,
            "path": str(absolute(self.vectors)),
            "weights": weights,
            "documents": documents_spec(self.documents),
        }


def alignment(vectors: Path, documents: Documents) -> Alignment:
    """The alignment by word vectors on disk and the words of documents."""
    counts = WordCounts.of(all_documents(documents))
    return Alignment(read_vectors(vectors), counts, origin=AlignmentOrigin(vectors, documents))


def open_alignment(values: Spec, opening: Opening) -> Alignment:
    """See `registry.OPENERS`."""
    check_keys("an alignment", values, {"path": str, "weights": dict, "documents": dict})
    path = opening.path(values["path"])
    check_weights(path, _vector_files(path), values["weights"])
    return alignment(path, opening.open("documents", values["documents"]))


def _vector_files(path: Path) -> dict[str, Path]:
    """The files of word vectors, by name."""
    files = [path] if path.is_file() else sorted([*path.glob("*.npy"), *path.glob("*.parquet")])
    return {file.name: file for file in files}
