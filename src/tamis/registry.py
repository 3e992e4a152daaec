"""From a spec to what it describes: the one table that says what opens each kind of thing.

A spec is plain JSON: `{"source": "index", "version": 1, …}`. Its first key is a role (`source`,
`stage`, `scorer`, `documents`), the value a kind. Only this table, and openers that a
caller hands in, decide which code runs: nothing that stands in a spec is imported or evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

from tamis.durable import folder_exists
from tamis.errors import InputError, UnknownKindError
from tamis.types import Scorer, Source, Spec, Stage
from tamis.types.conditions import Where
from tamis.types.explanation import Explanation
from tamis.types.pipeline import SPEC_VERSION

OPENERS: Mapping[str, Mapping[str, str]] = {
    "source": {
        "index": "tamis.search.sources:open_source",
        "dense": "tamis.search.dense:open_source",
        "hybrid": "tamis.pipeline.hybrid:open_source",
        "top": "tamis.pipeline.composition:open_top_of_source",
        "then": "tamis.pipeline.composition:open_then",
    },
    "stage": {
        "rerank": "tamis.pipeline.rerank:open_stage",
        "interpolate": "tamis.pipeline.interpolation:open_stage",
        "top": "tamis.pipeline.composition:open_top",
        "chain": "tamis.pipeline.composition:open_chain",
        "logistic-regression": "tamis.rankers.logistic_regression:open_stage",
        "lambdamart": "tamis.rankers.lambdamart:open_stage",
        "neural-ranker": "tamis.rankers.neural_ranker:open_stage",
        "pacrr-drmm": "tamis.rankers.pacrr_drmm:open_stage",
    },
    "text_embedder": {"mean": "tamis.rankers.text_embeddings:open_embedder"},
    "scorer": {
        "cross-encoder": "tamis.models.scorer_specs:open_cross_encoder",
        "bi-encoder": "tamis.models.scorer_specs:open_bi_encoder",
        "target-words": "tamis.models.scorer_specs:open_target_words",
        "alignment": "tamis.models.alignment_specs:open_alignment",
        "lexical": "tamis.scorers.lexical:open_scorer",
    },
    "documents": {
        "index": "tamis.pipeline.documents:open_index_documents",
        "store": "tamis.pipeline.documents:open_store",
        "collection": "tamis.pipeline.documents:open_collection_documents",
    },
}
"""The opener of each kind, by role; imported when it is first needed."""
EXPLAIN_INDEX = "tamis.explain.result:explain_index"
"""What `Index.explain` calls, which stands below it."""
PYTHON = "python"
"""The kind of what only exists in a Python program: no spec can bring it back."""
NUMBER = (int, float)

Resource = TypeVar("Resource")
Opener = Callable[[Spec, "Opening"], Any]
Openers = Mapping[str, Mapping[str, Opener]]
NO_OPENERS: Openers = MappingProxyType({})


@runtime_checkable
class HasSpec(Protocol):
    """What can describe itself."""

    def spec(self) -> Spec:
        """Plain JSON from which it can be opened again."""


def spec_of(role: str, value: object) -> Spec:
    """The spec of a scorer or of documents; of kind `python` where it has none.

    >>> spec_of("scorer", print)
    {'scorer': 'python', 'version': 1, 'class': 'builtin_function_or_method'}
    """
    return value.spec() if isinstance(value, HasSpec) else python_spec(role, value)


def python_spec(role: str, value: object) -> Spec:
    """The spec of what cannot be opened again: it only says what it was."""
    return {role: PYTHON, "version": SPEC_VERSION, "class": type(value).__name__}


@dataclass(frozen=True, eq=False)
class Opening:
    """Opens specs; an index or a model that several of them name is opened once.

    `base` is the folder that relative paths start from, `threads` how many threads are used,
    `device` where models run (a spec does not say, since it does not change a ranking), and
    `openers` opens kinds that tamis does not know, by role and kind: each is a function of the
    spec without its role and version, and of the `Opening` itself.
    """

    base: Path | None = None
    threads: int | None = None
    openers: Openers = field(default_factory=lambda: NO_OPENERS)
    device: str = "auto"
    _shared: dict[str, Any] = field(default_factory=dict)
    _scorer_openers: dict[str, Callable[[], Scorer]] = field(default_factory=dict)

    def source(self, spec: Spec) -> Source:
        """The source that a spec describes."""
        return cast(Source, self.open("source", spec))

    def stage(self, spec: Spec) -> Stage:
        """The stage that a spec describes."""
        return cast(Stage, self.open("stage", spec))

    def scorer(self, spec: Spec) -> Scorer:
        """The scorer that a spec describes; the same object for the same spec."""
        key = self._scorer_key(spec)
        open_it = self._scorer_openers.get(key, lambda: cast(Scorer, self.open("scorer", spec)))
        return self.share(key, open_it)

    def keep_scorer(self, spec: Spec, open_it: Callable[[], Scorer]) -> None:
        """Open this spec so: it is a part of a scorer that is open already."""
        self._scorer_openers.setdefault(self._scorer_key(spec), open_it)

    def _scorer_key(self, spec: Spec) -> str:
        """What tells two scorers apart, wherever paths start from."""
        place = isinstance(spec, dict) and spec.get("path")
        path_fields = {"path": str(absolute(self.path(place)))} if isinstance(place, str) else {}
        return f"scorer {dict(spec) | path_fields if isinstance(spec, dict) else spec!r}"

    def open(self, role: str, spec: object) -> Any:
        """What a spec describes in a role."""
        if not isinstance(spec, dict):
            raise InputError(
                f"the spec of a {role} is {_shortened(spec)}", hint="a spec is a JSON object"
            )
        opener = self._opener(role, spec)
        if spec.get("version") != SPEC_VERSION:
            raise InputError(
                f"the spec of a {role} has version {_shortened(spec.get('version'))}, this tamis "
                f"reads {SPEC_VERSION}",
                hint="it was written by another version of tamis: build the pipeline again",
            )
        return opener({key: spec[key] for key in spec if key not in (role, "version")}, self)

    def _opener(self, role: str, spec: Spec) -> Opener:
        kind = spec.get(role)
        if kind == PYTHON:
            raise UnknownKindError(
                f"this {role} was made in Python ({_shortened(spec.get('class'))}): its spec "
                "cannot be opened",
                hint=f"make it again, or name what lies on disk as its {role}: {_kinds_of(role)}",
            )
        handed_in = self.openers.get(role, {})
        if isinstance(kind, str) and kind in handed_in:
            return handed_in[kind]
        if isinstance(kind, str) and kind in OPENERS.get(role, {}):
            return _imported(OPENERS[role][kind])
        other = next((name for name in OPENERS if name in spec and name != role), None)
        if kind is None and other in ("source", "stage"):
            raise InputError(
                f"the spec describes a {other}, not a {role}", hint=f"use open_{other}"
            )
        what = "no kind" if kind is None else f"the kind {_shortened(kind)}"
        raise UnknownKindError(
            f"the spec of a {role} names {what}, which nothing here opens",
            hint=f"kinds: {_kinds_of(role)}; others are handed in: openers={{{role!r}: {{…}}}}",
        )

    def path(self, text: str) -> Path:
        """A path of a spec, which must be there."""
        path = Path(text)
        if not path.is_absolute():
            if self.base is None:
                raise InputError(
                    f"the path {text!r} of the spec is relative",
                    hint="say to which folder: base=FOLDER",
                )
            path = self.base / path
        if not folder_exists(path) and not path.exists():
            raise InputError(
                f"{path}, which the spec names, is not there",
                hint="was it moved or removed? put it back, or build the pipeline again",
            )
        return path

    def share(self, key: str, open_it: Callable[[], Resource]) -> Resource:
        """What is known under a key, opened at the first call."""
        if key not in self._shared:
            self._shared[key] = open_it()
        return cast(Resource, self._shared[key])


def open_source(
    spec: Spec,
    *,
    base: Path | str | None = None,
    threads: int | None = None,
    openers: Openers = NO_OPENERS,
    device: str = "auto",
) -> Source:
    """The source that `source.spec()` describes: it gives the same runs.

    Relative paths start from `base`. Kinds of one's own are opened by `openers`, by role and kind
    (see `Opening`). What is not there, not known or not what it was is refused.

    >>> from tempfile import mkdtemp
    >>> from tamis import Document, Index, Queries, Query
    >>> index = Index.build([Document("d1", "sieves"), Document("d2", "a drum")], mkdtemp() + "/i")
    >>> spec = (index.bm25(k1=1.2) % 10).spec()
    >>> open_source(spec)(Queries.of([Query("q", "sieve")]))["q"].ids
    ['d1']
    >>> open_source(spec).spec() == spec
    True
    """
    return _opening(base, threads, openers, device).source(spec)


def open_stage(
    spec: Spec,
    *,
    base: Path | str | None = None,
    threads: int | None = None,
    openers: Openers = NO_OPENERS,
    device: str = "auto",
) -> Stage:
    """The stage that `stage.spec()` describes; see `open_source`.

    >>> from tamis import Run
    >>> stage = open_stage({"stage": "top", "version": 1, "k": 1})
    >>> stage(Run.from_dict({"q": {"d1": 2.0, "d2": 1.0}}))["q"].ids
    ['d1']
    """
    return _opening(base, threads, openers, device).stage(spec)


def _opening(
    base: Path | str | None, threads: int | None, openers: Openers, device: str
) -> Opening:
    return Opening(None if base is None else Path(base), threads, openers, device)


def relative_spec(spec: Spec, base: Path | str) -> Spec:
    """The same spec with those paths relative that lie in a folder; `path` is the key of a path.

    >>> relative_spec({"index": {"path": "/a/b/index"}, "documents": {"path": "/c"}}, "/a/b")
    {'index': {'path': 'index'}, 'documents': {'path': '/c'}}
    """
    return moved_spec(spec, {absolute(base): ""})


def moved_spec(spec: Spec, places: Mapping[Path, str]) -> Spec:
    """The same spec with paths that lie in one of some folders named by where that folder is now.

    >>> moved_spec({"index": {"path": "/work/index"}}, {Path("/work/index"): "index"})
    {'index': {'path': 'index'}}
    """
    folders = {absolute(folder): place for folder, place in places.items()}

    def moved(key: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: moved(name, inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [moved("", inner) for inner in value]
        if key != "path" or not isinstance(value, str):
            return value
        within = [folder for folder in folders if Path(value).is_relative_to(folder)]
        if not within:
            return value
        deepest = max(within, key=lambda folder: len(folder.parts))
        return (Path(folders[deepest]) / Path(value).relative_to(deepest)).as_posix()

    return cast(Spec, moved("", spec))


def absolute(path: Path | str) -> Path:
    """A path as a spec writes it: from the root, without links."""
    return Path(path).expanduser().resolve()


Types = type | tuple[type, ...]


def check_keys(
    what: str,
    values: object,
    required: Mapping[str, Types],
    optional: Mapping[str, Types] = MappingProxyType({}),
) -> None:
    """Refuse a part of a spec that lacks a key, has one too many, or one of another type.

    >>> check_keys("top", {"k": 3}, {"k": int})
    """
    if not isinstance(values, dict):
        raise InputError(f"{what} in a spec is {_shortened(values)}", hint="it is a JSON object")
    keys = {**required, **optional}
    for key in required:
        if key not in values:
            raise InputError(f"the spec of {what} has no {key!r}", hint=f"keys: {', '.join(keys)}")
    for key, value in values.items():
        if key not in keys:
            raise InputError(
                f"the spec of {what} has a key {_shortened(key)} that nothing reads",
                hint=f"keys: {', '.join(keys) or 'none'}",
            )
        if not isinstance(value, keys[key]) or isinstance(value, bool):
            raise InputError(
                f"{key!r} in the spec of {what} is {_shortened(value)}",
                hint=f"it is {_type_name(keys[key])}",
            )


def check_choice(what: str, value: str, choices: Sequence[str]) -> None:
    """Refuse a value that is none of the choices."""
    if value not in choices:
        raise InputError(
            f"{what} in the spec is {_shortened(value)}", hint=f"one of {', '.join(choices)}"
        )


def _type_name(types: Types) -> str:
    names = {int: "a whole number", float: "", str: "a string", dict: "an object", list: "a list"}
    if types == NUMBER:
        return "a number"
    several = types if isinstance(types, tuple) else (types,)
    return " or ".join(names.get(type_, type_.__name__) for type_ in several)


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _kinds_of(role: str) -> str:
    return ", ".join(OPENERS.get(role, {}))


def explain_index(
    index: object, query: str, doc_id: str | None, other: str | None, where: Where
) -> Explanation:
    """See `Index.explain`."""
    explain = cast(Callable[..., Explanation], _imported(EXPLAIN_INDEX))
    return explain(index, query, doc_id, other, where)


@cache
def _imported(place: str) -> Opener:
    module, _, name = place.partition(":")
    return cast(Opener, getattr(import_module(module), name))
