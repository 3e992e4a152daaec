"""Options that several verbs have, under one name and with one meaning.

Options that always come together are a dataclass. A verb takes it as a parameter, and
`with_options` makes one option of every field.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

from tamis.errors import InputError

if TYPE_CHECKING:
    from tamis.collection._records import Columns
    from tamis.collection.base import Collection

INPUT_PANEL = "Reading the input"
OUTPUT_PANEL = "Output"
ADVANCED_PANEL = "Advanced options"
PANEL_ORDER = (None, INPUT_PANEL, OUTPUT_PANEL, ADVANCED_PANEL)

Force = Annotated[
    bool,
    typer.Option("--force", help="Replace the output if it exists.", rich_help_panel=OUTPUT_PANEL),
]
Json = Annotated[
    bool,
    typer.Option("--json", help="Print JSON instead of a table.", rich_help_panel=OUTPUT_PANEL),
]
WhereOption = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="CONDITION",
        help="Only documents whose field is so, such as author=ada, tags=a|b or date>=2024; "
        "repeatable, all must hold.",
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(
        "--threads",
        metavar="N",
        min=1,
        help="Number of threads. Default: all cores.",
        rich_help_panel=ADVANCED_PANEL,
    ),
]
Seed = Annotated[
    int,
    typer.Option(
        "--seed",
        metavar="N",
        min=0,
        help="Seed of everything that is drawn at random.",
        rich_help_panel=ADVANCED_PANEL,
    ),
]
OnError = Annotated[
    Literal["raise", "skip"],
    typer.Option(
        "--on-error",
        help="At a bad line or file: stop there (raise), or skip it and report how many (skip).",
        rich_help_panel=INPUT_PANEL,
    ),
]
Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose",
        help="Also print all systems and the details of the tests.",
        rich_help_panel=OUTPUT_PANEL,
    ),
]
QueriesFile = Annotated[
    str | None,
    typer.Option(
        "--queries", metavar="FILE", help="Queries to use instead of the collection's own."
    ),
]
QrelsFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--qrels",
        metavar="[SPLIT=]FILE",
        help="Judgements (qrels) to use instead of the collection's own: a file, or a folder "
        "written by tamis judge. Repeatable.",
    ),
]
CollectionOption = Annotated[
    str,
    typer.Option(
        "-c", "--collection", metavar="COLLECTION", help="The documents: a collection or an index."
    ),
]
Candidates = Annotated[
    str | None,
    typer.Option(
        "--candidates",
        metavar="RUN",
        help="A run with the candidates of each query. Default: search for them.",
    ),
]
TimeLimit = Annotated[
    float | None,
    typer.Option(
        "--max-time",
        parser=lambda text: job_time(text),
        metavar="TIME",
        help="Time limit, such as 20m or 1h30m; 20 means minutes.",
    ),
]


@dataclass(frozen=True)
class DeviceOptions:
    """Where a model runs, and in which precision."""

    device: Annotated[
        str,
        typer.Option(
            "--device",
            metavar="DEVICE",
            help="Where the model runs: auto (a GPU if there is one), cpu, cuda, cuda:1 or mps.",
            rich_help_panel=ADVANCED_PANEL,
        ),
    ] = "auto"
    dtype: Annotated[
        Literal["auto", "float32", "bfloat16", "float16", "int8"],
        typer.Option(
            "--dtype",
            help="Precision of the model; int8 runs its 8-bit export (tamis export). Default: half "
            "precision on a GPU, float32 on the CPU.",
            rich_help_panel=ADVANCED_PANEL,
        ),
    ] = "auto"
    trust_remote_code: Annotated[
        str | None,
        typer.Option(
            "--trust-remote-code",
            metavar="MODEL",
            help="Run code that this model brings; name the same folder or hub id again.",
            rich_help_panel=ADVANCED_PANEL,
        ),
    ] = None

    def of(self, model: str) -> dict[str, Any]:
        """What opens a model so."""
        from tamis.models.model_lookup import is_trusted

        trusted = is_trusted(model, self.trust_remote_code or False)
        return {"device": self.device, "dtype": self.dtype, "trust_remote_code": trusted}


@dataclass(frozen=True)
class TrainingDevice:
    """Where a model is trained, and in which precision."""

    device: Annotated[
        str,
        typer.Option(
            "--device",
            metavar="DEVICE",
            help="Where the model is trained: auto (a GPU if there is one), cpu, cuda, cuda:1 or "
            "mps.",
            rich_help_panel=ADVANCED_PANEL,
        ),
    ] = "auto"
    dtype: Annotated[
        Literal["auto", "float32", "bfloat16", "float16"],
        typer.Option(
            "--dtype",
            help="Precision of products while training; weights stay float32. Default: bfloat16 on "
            "a GPU that has it, else float32.",
            rich_help_panel=ADVANCED_PANEL,
        ),
    ] = "auto"


GradientCheckpointing = Annotated[
    bool,
    typer.Option(
        "--gradient-checkpointing",
        help="Compute states again for the gradient instead of keeping them: less memory, more "
        "time.",
        rich_help_panel=ADVANCED_PANEL,
    ),
]


def job_time(text: str | float) -> float:
    """The seconds that a job may take; a number alone is minutes."""
    return _seconds(text, "m")


def query_time(text: str | float) -> float:
    """The seconds that a query may take; a number alone is seconds."""
    return _seconds(text, "s")


def _seconds(text: str | float, unit: Literal["s", "m"]) -> float:
    from tamis.durable import parse_time

    try:
        return parse_time(str(text), unit)
    except InputError as error:
        raise typer.BadParameter(f"{error}; {error.hint}") from None


@dataclass(frozen=True)
class ReadOptions:
    """How a collection is read."""

    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="NAME",
            help="Format of the collection. Default: detected from its contents.",
            rich_help_panel=INPUT_PANEL,
        ),
    ] = None
    id: Annotated[
        str | None,
        typer.Option(
            "--id", metavar="COLUMN", help="Column with the ids.", rich_help_panel=INPUT_PANEL
        ),
    ] = None
    text: Annotated[
        str | None,
        typer.Option(
            "--text", metavar="COLUMN", help="Column with the texts.", rich_help_panel=INPUT_PANEL
        ),
    ] = None
    title: Annotated[
        str | None,
        typer.Option(
            "--title", metavar="COLUMN", help="Column with the titles.", rich_help_panel=INPUT_PANEL
        ),
    ] = None
    on_error: OnError = "raise"

    @property
    def columns(self) -> Columns:
        """The columns that are named."""
        from tamis.collection._records import Columns

        return Columns(id=self.id, text=self.text, title=self.title)

    @property
    def skips_bad_lines(self) -> bool:
        """Whether reading goes on after a bad line."""
        return self.on_error == "skip"

    def open(self, collection: str) -> Collection:
        """The collection of a path or id."""
        from tamis.collection.readers import open_collection

        return open_collection(
            collection, format=self.format, columns=self.columns, on_error=self.on_error
        )


def with_options(verb: Callable[..., None]) -> Callable[..., None]:
    """The verb with one option for every field of the dataclasses among its parameters, in the
    order of their panels.

    >>> @with_options
    ... def count(read: ReadOptions, threads: Threads, queries: QueriesFile) -> None: ...
    >>> list(inspect.signature(count).parameters)
    ['queries', 'format', 'id', 'text', 'title', 'on_error', 'threads']
    """
    signature = inspect.signature(verb, eval_str=True)
    groups: dict[str, Any] = {
        parameter.name: parameter.annotation
        for parameter in signature.parameters.values()
        if is_dataclass(parameter.annotation)
    }
    parameters: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        group = groups.get(parameter.name)
        if group is None:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
        else:
            hints = get_type_hints(group, include_extras=True)
            parameters += [_parameter(field, hints[field.name]) for field in fields(group)]

    for parameter in parameters:
        _drop_bool_metavar(parameter.annotation)
    parameters.sort(key=lambda parameter: _panel_order(parameter.annotation))

    @wraps(verb)
    def call(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        verb(**values)

    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


def _drop_bool_metavar(annotation: Any) -> None:
    """Show no value beside a switch."""
    for info in annotation.__metadata__:
        if annotation.__origin__ in (bool, bool | None) and info.metavar is None:
            info.metavar = ""


def _panel_order(annotation: Any) -> int:
    """Common options first, advanced ones last."""
    panels = [getattr(info, "rich_help_panel", None) for info in annotation.__metadata__]
    return max(PANEL_ORDER.index(panel) if panel in PANEL_ORDER else 0 for panel in panels)


def _parameter(field: Field[Any], annotation: Any) -> inspect.Parameter:
    default = inspect.Parameter.empty if field.default is MISSING else field.default
    return inspect.Parameter(
        field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )
