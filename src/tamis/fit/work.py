"""The folder in which a fit leaves what it has done, so that it goes on where it was stopped.

Every step has an output with a name: a run, a model, a note. What is there is not made again.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import xxhash

from tamis.collection.runs import read_run, write_run
from tamis.durable import locked, new_file
from tamis.errors import OutputError
from tamis.types import Run

REQUEST, SECONDS, SIEVE = "request.json", "seconds.json", "sieve.json"
Said = Callable[[str], object]


@dataclass(eq=False)
class Work:
    """Where outputs lie, and how long each took."""

    folder: Path
    said: Said = lambda words: None
    seconds: dict[str, float] = field(default_factory=dict)

    def path(self, name: str) -> Path:
        """Where an output lies; what it lies in is there."""
        found = self.folder / name
        found.parent.mkdir(parents=True, exist_ok=True)
        return found

    def run(self, name: str, make: Callable[[], Run]) -> Run:
        """A run that is there, or is made now."""
        path = self.path(f"runs/{name}.parquet")
        if not path.exists():
            with self.timed(name):
                found = make()
            write_run(found, path)
        return read_run(path)

    def note(self, name: str, make: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
        """A note that is there, or is made now."""
        path = self.path(f"{name}.json")
        if not path.exists():
            with self.timed(name):
                found = json.dumps(make(), indent=1)
            with new_file(path) as part:
                part.write_text(found, "utf-8")
        read: dict[str, Any] = json.loads(path.read_text("utf-8"))
        return read

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Keep how long something took."""
        began = time.monotonic()
        yield
        self.seconds[name] = round(time.monotonic() - began, 4)
        with new_file(self.path(SECONDS), force=True) as part:
            part.write_text(json.dumps(self.seconds, indent=1), "utf-8")

    def record_sieve(self, folder: Path) -> None:
        """Keep which folder is the sieve of this fit, whatever its name will be."""
        with new_file(self.path(SIEVE), force=True) as part:
            part.write_text(json.dumps(_identity(folder)), "utf-8")

    def taken(self, *beginnings: str) -> float:
        """How many seconds the steps whose names begin like this took together."""
        return sum(each for name, each in self.seconds.items() if name.startswith(beginnings))


def _identity(folder: Path) -> list[int]:
    """What stays the same of a folder that is renamed."""
    facts = folder.stat()
    return [facts.st_dev, facts.st_ino]


def request_digest(request: Mapping[str, Any]) -> str:
    """What a request is known by in the sieve that was made for it."""
    return str(xxhash.xxh3_128_hexdigest(json.dumps(request, sort_keys=True).encode()))


def is_sieve_of(folder: Path, out: Path, digest: str, request: Mapping[str, Any]) -> bool:
    """Whether a sieve was made for this request, by the fit in this work folder if it is there yet;
    `digest` is what the sieve knows its request by.
    """
    if digest != request_digest(request):
        return False
    record = folder / SIEVE
    if not folder.exists():
        return True
    return record.is_file() and json.loads(record.read_text("utf-8")) == _identity(out)


def remove_work(folder: Path) -> None:
    """Remove a work folder: under another name first, so that it is whole or not there."""
    trash = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(trash, ignore_errors=True)
    if folder.exists():
        folder.rename(trash)
        shutil.rmtree(trash)


@contextmanager
def working(
    folder: Path, request: Mapping[str, Any], *, resume: bool, force: bool, said: Said
) -> Iterator[Work]:
    """The work folder of a request, begun or gone on with; it is removed by whoever is done."""
    with locked(folder):
        path = folder / REQUEST
        if folder.exists() and not resume and not force:
            raise OutputError(
                f"{folder} is left of a fit that was stopped",
                hint="go on with --resume, or begin again with --force",
            )
        if folder.exists() and not resume:
            shutil.rmtree(folder)
        if path.exists() and json.loads(path.read_text("utf-8")) != request:
            known = json.loads(path.read_text("utf-8"))
            other = next(name for name in request if request[name] != known.get(name))
            if other == "layout":
                raise OutputError(
                    f"{folder} was begun by another version of tamis",
                    hint="begin again with --force",
                )
            told = f"{other} {known.get(other)!r}, not {request[other]!r}"
            plain = not isinstance(request[other], list | dict)
            raise OutputError(
                f"{folder} was begun with {told if plain else f'other {other}'}",
                hint="say the same again, or begin again with --force",
            )
        folder.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            with new_file(path) as part:
                part.write_text(json.dumps(request, indent=1), "utf-8")
        took = folder / SECONDS
        work = Work(folder, said, json.loads(took.read_text("utf-8")) if took.exists() else {})
        try:
            yield work
        except shutil.Error as error:  # what copying a folder raises, with a row a file
            file, _, why = error.args[0][0]
            raise OutputError(
                f"cannot copy {file}: {why}", hint="is the disk full? then --resume"
            ) from None
        finally:
            if folder.exists() and not work.seconds:  # nothing was done that could be gone on with
                shutil.rmtree(folder)
