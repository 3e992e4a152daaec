"""The folder in which a fit keeps what it has done, so that it resumes where it was stopped.

Every step has an output with a name: a run, a model, a record. What is there is not made again.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import xxhash

from tamis.collection.runs import read_run, write_run
from tamis.durable import locked, new_file
from tamis.errors import OutputError
from tamis.types import Run

REQUEST, TIMINGS, SIEVE = "request.json", "timings.json", "sieve.json"


@dataclass(frozen=True)
class Timing:
    """How long something took."""

    step: str
    """The key of the step of the plan that it belongs to; empty where it belongs to none."""
    activity: str
    """What was done: `index`, `tune`, `encode`, `search`, `label`, `train`, `score`, …"""
    system: str = ""
    """The key of the kind of system it was done for."""
    fold: str = ""
    seconds: float = 0.0


@dataclass(eq=False)
class Workspace:
    """Where outputs lie, and how long each took."""

    folder: Path
    timings: list[Timing] = field(default_factory=list)
    on_begin: Callable[[Timing], None] = lambda timing: None
    """Called before anything that is timed."""
    on_left_out: Callable[[str], None] = lambda step: None
    """Called with the key of a step of which something is left out."""

    def path(self, name: str) -> Path:
        """Where an output lies; the folder around it exists."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def run(self, name: str, make: Callable[[], Run], timing: Timing) -> Run:
        """A run that is there, or is made now."""
        path = self.path(f"runs/{name}.parquet")
        if not path.exists():
            with self.timed(timing):
                run = make()
            write_run(run, path)
        return read_run(path)

    def record(self, name: str, make: Callable[[], Mapping[str, Any]], timing: Timing) -> Any:
        """A record, plain JSON, that is there, or is made now."""
        path = self.path(f"{name}.json")
        if not path.exists():
            with self.timed(timing):
                text = json.dumps(make(), indent=1)
            with new_file(path) as file:
                file.write_text(text, "utf-8")
        return json.loads(path.read_text("utf-8"))

    @contextmanager
    def timed(self, timing: Timing) -> Iterator[None]:
        """Keep how long something took; done again, the last time counts."""
        self.on_begin(timing)
        began = time.monotonic()
        yield
        seconds = round(time.monotonic() - began, 4)
        other_timings = [
            recorded for recorded in self.timings if replace(recorded, seconds=0.0) != timing
        ]
        self.timings[:] = [*other_timings, replace(timing, seconds=seconds)]
        with new_file(self.path(TIMINGS), force=True) as file:
            file.write_text(
                json.dumps([asdict(recorded) for recorded in self.timings], indent=1), "utf-8"
            )

    @property
    def elapsed(self) -> float:
        """How many seconds everything took so far."""
        return sum(timing.seconds for timing in self.timings)

    def record_sieve(self, folder: Path) -> None:
        """Keep which folder is the sieve of this fit, whatever its name will be."""
        with new_file(self.path(SIEVE), force=True) as file:
            file.write_text(json.dumps(_identity(folder)), "utf-8")


def _identity(folder: Path) -> list[int]:
    """What stays the same of a folder that is renamed."""
    facts = folder.stat()
    return [facts.st_dev, facts.st_ino]


def request_digest(request: Mapping[str, Any]) -> str:
    """What a request is known by in the sieve that was made for it."""
    return str(xxhash.xxh3_128_hexdigest(json.dumps(request, sort_keys=True).encode()))


def is_sieve_of(folder: Path, out: Path, digest: str, request: Mapping[str, Any]) -> bool:
    """Whether a sieve was made for this request, by the fit in this workspace if there is one;
    `digest` is what the sieve knows its request by.
    """
    if digest != request_digest(request):
        return False
    record = folder / SIEVE
    if not folder.exists():
        return True
    return record.is_file() and json.loads(record.read_text("utf-8")) == _identity(out)


def remove_workspace(folder: Path) -> None:
    """Remove a workspace: under another name first, so that it is whole or not there."""
    trash = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(trash, ignore_errors=True)
    if folder.exists():
        folder.rename(trash)
        shutil.rmtree(trash)


@contextmanager
def open_workspace(
    folder: Path, request: Mapping[str, Any], *, resume: bool, force: bool
) -> Iterator[Workspace]:
    """The workspace of a request, new or resumed; whoever is done removes it."""
    with locked(folder):
        path = folder / REQUEST
        if folder.exists() and not resume and not force:
            raise OutputError(
                f"{folder} is left of a fit that was stopped",
                hint="go on with --resume (resume=True), or begin again with --force (force=True)",
            )
        if folder.exists() and not resume:
            shutil.rmtree(folder)
        if path.exists() and json.loads(path.read_text("utf-8")) != request:
            recorded = json.loads(path.read_text("utf-8"))
            other = next(name for name in request if request[name] != recorded.get(name))
            if other == "layout":
                raise OutputError(
                    f"{folder} was begun by another version of tamis",
                    hint="begin again with --force",
                )
            difference = f"{other} {recorded.get(other)!r}, not {request[other]!r}"
            plain = not isinstance(request[other], list | dict)
            raise OutputError(
                f"{folder} was begun with {difference if plain else f'other {other}'}",
                hint="say the same again, or begin again with --force",
            )
        folder.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            with new_file(path) as request_file:
                request_file.write_text(json.dumps(request, indent=1), "utf-8")
        took = folder / TIMINGS
        rows = json.loads(took.read_text("utf-8")) if took.exists() else []
        work = Workspace(folder, [Timing(**row) for row in rows])
        try:
            yield work
        except shutil.Error as error:  # what copying a folder raises, one row per file
            file, _, why = error.args[0][0]
            raise OutputError(
                f"cannot copy {file}: {why}", hint="is the disk full? then --resume"
            ) from None
        finally:
            if folder.exists() and not work.timings:  # nothing was done that could be resumed
                shutil.rmtree(folder)
