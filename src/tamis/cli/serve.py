"""`tamis serve`: sieves and models behind HTTP."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tamis.cli.common import say, split_name
from tamis.cli.options import ADVANCED_PANEL, DeviceOptions, Threads, query_time, with_options
from tamis.cli.sieves import is_sieve
from tamis.errors import InputError, require

if TYPE_CHECKING:
    from tamis.serve.settings import Limits, ModelPlace, ServeSettings

LIMITS_PANEL = "Limits"
ORIGIN = re.compile(r"\*|https?://[^/?#\s]+")
Dialect = Literal["auto", "tei", "cohere", "superset", "tamis"]


@dataclass(frozen=True)
class LimitOptions:
    """What a request may bring, and what may wait."""

    max_documents: Annotated[
        int, typer.Option(metavar="N", min=1, help="Documents a request.",
                          rich_help_panel=LIMITS_PANEL),
    ] = 1000  # fmt: skip
    max_text: Annotated[
        int, typer.Option(metavar="N", min=1, help="Characters a text.",
                          rich_help_panel=LIMITS_PANEL),
    ] = 100_000  # fmt: skip
    max_body: Annotated[
        str, typer.Option(metavar="SIZE", help="Size of a request, also decompressed.",
                          rich_help_panel=LIMITS_PANEL),
    ] = "32MB"  # fmt: skip
    queue: Annotated[
        int, typer.Option(metavar="N", min=1, rich_help_panel=LIMITS_PANEL,
                          help="Requests a model that wait or run; more are answered 429."),
    ] = 512  # fmt: skip
    queue_tokens: Annotated[
        int, typer.Option(metavar="N", min=1, rich_help_panel=LIMITS_PANEL,
                          help="Their tokens, estimated; more are answered 429."),
    ] = 2_000_000  # fmt: skip
    batch_tokens: Annotated[
        int, typer.Option(metavar="N", min=1, rich_help_panel=LIMITS_PANEL,
                          help="Tokens of several requests that are scored together."),
    ] = 8192  # fmt: skip

    body_time: Annotated[
        float,
        typer.Option(
            parser=query_time,
            metavar="TIME",
            help="Time a client may take to send a request.",
            show_default="30s",
            rich_help_panel=LIMITS_PANEL,
        ),
    ] = 30.0

    def limits(self) -> Limits:
        """As the service takes them."""
        from tamis.cli.dense import parse_size
        from tamis.serve.settings import Limits

        return Limits(
            documents=self.max_documents,
            text_characters=self.max_text,
            body_bytes=parse_size(self.max_body),
            queued_requests=self.queue,
            queued_tokens=self.queue_tokens,
            batch_tokens=self.batch_tokens,
            body_seconds=self.body_time,
        )


@with_options
def serve(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="SIEVE|MODEL…",
            help="What to serve: sieves and models, each perhaps as NAME=PATH. Requests name one "
            "by `model`; the first is the default.",
        ),
    ],
    device: DeviceOptions,
    limits: LimitOptions,
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="0: any free one.")
    ] = 8080,
    workers: Annotated[int, typer.Option(metavar="N", min=1, help="Number of processes.")] = 1,
    api_key_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Keys, one a line; without it only this machine is answered.",
        ),
    ] = None,
    cors_origin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN",
            help="Origin of web pages that may ask, such as https://app.example. Repeatable.",
        ),
    ] = None,
    dialect: Annotated[
        Dialect,
        typer.Option(help="Shape of /rerank, /v1/rerank and /v2/rerank; auto: by path and body."),
    ] = "auto",
    latency: Annotated[
        float | None,
        typer.Option(
            parser=query_time,
            metavar="TIME",
            help="Time a request may take, such as 200ms: it is re-ranked as deep as that allows.",
        ),
    ] = None,
    shutdown: Annotated[
        float,
        typer.Option(
            parser=query_time,
            metavar="TIME",
            help="Time that requests in flight have when the service ends.",
            show_default="30s",
            rich_help_panel=ADVANCED_PANEL,
        ),
    ] = 30.0,
    threads: Threads = None,
) -> None:
    """Answer searches and re-rankings over HTTP, in the shapes of TEI, Cohere, Jina and vLLM.

    Example: tamis serve my.sieve
    """
    places = _places(models)
    are_models = [not is_sieve(Path(place.path).expanduser()) for place in places]
    require("fastapi", "uvicorn", "prometheus_client", *(["torch"] if any(are_models) else []))
    from tamis.serve.settings import ServeSettings

    settings = ServeSettings(
        places,
        host,
        port,
        workers,
        str(api_key_file) if api_key_file else None,
        tuple(cors_origin or ()),
        dialect,
        limits.limits(),
        latency,
        threads,
        device.device,
        device.dtype,
        device.trust_remote_code,
        shutdown,
    )
    _check(settings)
    _run(settings)


def _places(models: list[str]) -> tuple[ModelPlace, ...]:
    """The names and paths of what is served."""
    from tamis.serve.settings import ModelPlace

    places = []
    for model in models:
        name, path = split_name(model)
        places.append(ModelPlace(name or default_name(path), path))
    names = [place.name for place in places]
    if len({*names}) < len(names):
        raise InputError(
            f"two of {', '.join(names)} have the same name", hint="name them: NAME=PATH NAME=PATH"
        )
    return tuple(places)


def default_name(path: str) -> str:
    """What requests call a sieve or a model: its folder without the ending, or its hub id.

    >>> default_name("data/my.sieve/"), default_name("cross-encoder/ms-marco-MiniLM-L6-v2")
    ('my', 'cross-encoder/ms-marco-MiniLM-L6-v2')
    """
    folder = Path(path)
    if folder.suffix in (".sieve", ".model"):
        return folder.stem
    return folder.resolve().name if folder.exists() else path


def _check(settings: ServeSettings) -> None:
    """Refuse to be open to everyone, and to read keys that are none, before anything is opened."""
    from tamis.serve.auth import Keys

    if settings.limits.body_bytes < 1:
        raise InputError("--max-body 0 lets no request in", hint="say how large one may be: 32MB")
    for origin in settings.cors_origins:
        if not ORIGIN.fullmatch(origin):
            raise InputError(
                f"{origin} is no origin", hint="it has no path: --cors-origin https://app.example"
            )
    if settings.api_key_file:
        Keys.read(settings.api_key_file)
    elif not settings.is_loopback:
        raise InputError(
            f"without keys nobody but this machine may ask, and {settings.host} is for others too",
            hint="name a file of keys: --api-key-file FILE (openssl rand -hex 32 > FILE)",
        )
    else:
        say(f"note: there are no keys: only this machine is answered, at {settings.host}")


def _run(settings: ServeSettings) -> None:
    from tamis.serve.logs import json_logs
    from tamis.serve.server import address, listen, serve

    names = ", ".join(each.name for each in settings.models)
    with listen(settings.host, settings.port) as listener, json_logs():
        place = address(listener)
        if settings.workers > 1:
            from tamis.serve.supervisor import supervise

            supervise(settings, listener, lambda: _say_started(names, place))
        else:
            serve(settings, listener, lambda: _say_started(names, place))


def _say_started(names: str, place: str) -> None:
    say(f"serving {names} at {place}, described at {place}/docs")
