"""What a fit was asked for, and how it is known again when it resumes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import xxhash

from tamis.collection._records import Columns
from tamis.collection.base import Collection, OnError
from tamis.collection.judgements import split_of
from tamis.fitting.sieve_layout import SIEVE_LAYOUT, cache_beside
from tamis.search.cached_encoder import DEFAULT_SIZE
from tamis.splits import is_test
from tamis.training.precision import Placement
from tamis.types import Qrels, Queries, Run

DEFAULT_BASE = "all-MiniLM-L6-v2"
DEFAULT_MINUTES = 30
JUDGED_SPLIT = "judged"
"""The split of judgements without a name for it: some of them are set aside for the test."""


def fit_split_of(path: Path | str) -> str:
    """The split that a fit takes judgements for where none is named: a folder's own; of a file
    `test` where its name says so, else one of which some are set aside for the test.

    >>> fit_split_of("qrels.test.txt"), fit_split_of("judged.tsv")
    ('test', 'judged')
    """
    return split_of(path, "test" if is_test(Path(path).name) else JUDGED_SPLIT)


@dataclass(frozen=True, eq=False)
class FitRequest:
    """What was asked for: files by their paths, or what they would hold."""

    collection: str | Collection
    """A collection, an index or a sieve by its path or id, or a collection itself."""
    out: Path
    base: str | None = DEFAULT_BASE
    """None: ranking goes by words alone; so it does where torch is missing for the default one."""
    measure: str = "RR@10"
    max_time: float = DEFAULT_MINUTES * 60.0
    user_run: str | Run | None = None
    """The results of the user's own retriever, re-ranked in place of ours."""
    teacher: str | None = None
    """A stronger model, whose order of candidates the base learns."""
    word_vectors: str | None = None
    """Word vectors, for alignment scores."""
    queries: str | Queries | None = None
    qrels: Mapping[str, str | Qrels] = field(default_factory=dict)
    """Judgements by split."""
    depth: int = 50
    passages: str | None = None
    """How documents are split to be scored and encoded; None: by how long they are."""
    learning_curve: bool = True
    """Whether to measure what fewer judgements give."""
    seed: int = 0
    threads: int | None = None
    device: str = "auto"
    """Where models are trained and run."""
    dtype: str = "auto"
    """In which precision; `auto`: learning in bfloat16 on a GPU that has it, ranking in float32."""
    gradient_checkpointing: bool = False
    format: str | None = None
    columns: Columns = field(default_factory=Columns)
    on_error: OnError = "raise"
    command: str = ""
    embedding_cache: Path | None = None
    """Where embeddings are kept for the next fit; None: beside the sieve."""
    embedding_cache_size: int = DEFAULT_SIZE
    """How many bytes they may take; 0: none are kept."""

    @property
    def ranking_dtype(self) -> str:
        """The precision that the sieve ranks in, on whatever device it is opened."""
        return "float32" if self.dtype == "auto" else self.dtype

    @property
    def placement(self) -> Placement:
        """Where models are trained."""
        return Placement(self.device, self.dtype, self.gradient_checkpointing)

    @property
    def embedding_cache_folder(self) -> Path:
        """Where embeddings are kept: where it says so, else where the sieve that is fitted again
        keeps them, else beside the new one.
        """
        if self.embedding_cache is not None:
            return self.embedding_cache
        old = cache_beside(Path(self.collection)) if isinstance(self.collection, str) else self.out
        return old if old.is_dir() and old != self.out else cache_beside(self.out)

    @property
    def name(self) -> str:
        """What errors call the collection."""
        return self.collection if isinstance(self.collection, str) else self.collection.name

    def to_json(self) -> dict[str, Any]:
        """What must be the same when a fit resumes; threads and time may differ."""
        inputs = {
            "collection": self.collection,
            "user_run": self.user_run,
            "queries": self.queries,
            **{f"qrels {split}": qrels for split, qrels in self.qrels.items()},
        }
        names = {name: value if isinstance(value, str) else None for name, value in inputs.items()}
        settings = {
            name: getattr(self, name)
            for name in ("base", "measure", "teacher", "word_vectors", "depth", "passages",
                         "learning_curve", "seed", "format", "on_error")
        }  # fmt: skip
        settings |= {} if self.dtype == "auto" else {"dtype": self.dtype}
        paths = [*names.values(), self.base, self.teacher, self.word_vectors]
        return {
            **settings,
            **names,
            "columns": asdict(self.columns),
            "out": str(self.out),
            "layout": SIEVE_LAYOUT,
            "files": [row for path in paths if path for row in file_rows(Path(path))],
            "contents": [
                digest(value)
                for value in inputs.values()
                if value is not None and not isinstance(value, str)
            ],
        }


def file_rows(path: Path) -> list[list[Any]]:
    """The files of a folder by name, size and time, to see that none was changed."""
    if not path.exists():
        return []
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    return [
        [str(file), file.stat().st_size, file.stat().st_mtime_ns]
        for file in files
        if file.is_file()
    ]


def digest(content: Collection | Queries | Qrels | Run) -> str:
    """A digest of everything that an object holds.

    >>> digest(Qrels.from_dict({"q": {"d": 1}})) == digest(Qrels.from_dict({"q": {"d": 2}}))
    False
    """
    state = xxhash.xxh3_128()

    def add(*values: object) -> None:
        for value in values:
            state.update(f"{value}\0".encode(errors="surrogatepass"))

    if isinstance(content, Collection):
        for document in content.documents:
            add(document.id, document.title, document.text, sorted(document.fields.items()))
        add(digest(content.queries), *map(digest, content.qrels.values()), *content.qrels)
    elif isinstance(content, Queries):
        for query in content:
            add(query.id, query.text)
    elif isinstance(content, Qrels):
        for name in content.queries:
            add(name, sorted(content[name].items()))
    else:
        for name in content.queries.ids:
            add(name, *content[name])
    return state.hexdigest()
