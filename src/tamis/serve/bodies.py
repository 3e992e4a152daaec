"""The body of a request: read in time, bounded before and after it is decompressed, then JSON.

How many values it has is bounded too, before anything looks at each of them.
"""

from __future__ import annotations

import asyncio
import gzip
import io
import zlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import orjson
import zstandard

from tamis.serve.errors import (
    ClientGoneError,
    InvalidError,
    MalformedError,
    MediaTypeError,
    OverloadedError,
    SlowClientError,
    TooLargeError,
    TooManyTextsError,
)
from tamis.serve.settings import Limits

Receive = Callable[[], Awaitable[Any]]
MAX_ENCODINGS = 1
"""A body compressed twice is refused."""
DISCARD_BYTES, DISCARD_SECONDS = 256 << 20, 5.0
"""How much of a body that is too large is read and thrown away, so that its client sees why."""
PIECE = 64 << 10
BODIES_AT_ONCE = 8
"""How many bodies of the greatest size may be held while they come and are read as JSON."""
MAX_MARKS = 4_000_000
"""Commas and brackets of a body: what bounds the values that it may become, at 64 bytes each."""
GZIP_MAGIC, MAX_MEMBERS = b"\x1f\x8b\x08", 1000
MAX_KEYS = 1000
"""Keys of a body, and of a document in it."""
COUNTED = (
    "documents", "texts", "input", "inputs", "passages", "items", "sentences", "queries", "query",
    "text_1", "text_2", "data_1", "data_2", "rank_fields", "filters", "where",
)  # fmt: skip
"""Keys whose lists are bounded by the number of documents."""


@dataclass(eq=False)
class Incoming:
    """The messages of a body, and whether it is all there."""

    receive: Receive
    is_over: bool = False

    async def __call__(self) -> Any:
        message = await self.receive()
        self.is_over = message["type"] == "http.disconnect" or not message.get("more_body")
        return message


class BodyBudget:
    """The bytes of all bodies that are on their way in, and the thread that reads large ones.

    >>> budget = BodyBudget(100)
    >>> with budget.hold() as grow, budget.hold() as grow_other:
    ...     grow(70)
    ...     try:
    ...         grow_other(40)
    ...     except OverloadedError as error:
    ...         print(error)
    too many bodies come at once: 70 bytes are held, 100 at most
    >>> budget.held
    0
    """

    def __init__(self, most: int) -> None:
        """`most` bytes."""
        self.most, self.held = most, 0
        self.parser = ThreadPoolExecutor(1, "tamis-bodies")

    @contextmanager
    def hold(self) -> Iterator[Callable[[int], None]]:
        """What is handed to the function counts inside the block; a single body always may grow."""
        size = 0

        def grow(more: int) -> None:
            nonlocal size
            if self.held > size and self.held + more > self.most:
                raise OverloadedError(
                    f"too many bodies come at once: {self.held} bytes are held, {self.most} at "
                    "most",
                    retry_after=1.0,
                )
            size += more
            self.held += more

        try:
            yield grow
        finally:
            self.held -= size


async def read_json(
    receive: Receive, headers: Mapping[str, str], limits: Limits, budget: BodyBudget
) -> dict[str, Any]:
    """The object that a request brings; see `check_counts`."""
    check_media_type(headers.get("content-type", ""))
    encoding, incoming = headers.get("content-encoding", ""), Incoming(receive)
    try:
        with budget.hold() as grow:
            raw = await read_bytes(incoming, headers, limits, grow)
            if len(raw) <= PIECE and not encoding:
                return as_object(raw)
            return await asyncio.get_running_loop().run_in_executor(
                budget.parser,  # one at a time, so that no more than one is held decompressed
                lambda: as_object(decompress(raw, encoding, limits.body_bytes)),
            )
    except OverloadedError:
        await _discard(incoming)
        raise


def check_media_type(content_type: str) -> None:
    """Refuse what does not say that it is JSON: a page of another site could send that unasked."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind != "application/json" and not (
        kind.startswith("application/") and kind.endswith("+json")
    ):
        raise MediaTypeError(
            "the body is not said to be JSON", hint="send Content-Type: application/json"
        )


async def read_bytes(
    receive: Incoming, headers: Mapping[str, str], limits: Limits, grow: Callable[[int], None]
) -> bytes:
    """The body as it came, if it is short enough and comes in time; `grow` is told every piece."""
    length = headers.get("content-length", "")
    too_large = length.isdecimal() and int(length[:20]) > limits.body_bytes
    if not too_large:
        try:
            async with asyncio.timeout(limits.body_seconds):
                body = await _collect(receive, limits.body_bytes, grow)
        except TimeoutError:
            raise SlowClientError(
                f"the body did not come within {limits.body_seconds:g} s", hint="send it faster"
            ) from None
        if body is not None:
            return body
    await _discard(receive)
    raise TooLargeError(
        f"the body has more than {limits.body_bytes} bytes",
        hint="send several requests, or start the service with a larger --max-body",
    )


async def _collect(receive: Receive, most: int, grow: Callable[[int], None]) -> bytes | None:
    """The whole body; None once it is too large."""
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError("the client has gone")
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        if size > most:
            return None
        grow(len(pieces[-1]))
        if not message.get("more_body"):
            return b"".join(pieces)


async def _discard(receive: Incoming) -> None:
    """Read on for a while, so that a client that only writes comes to read the answer."""
    size = 0
    try:
        async with asyncio.timeout(DISCARD_SECONDS):
            while size < DISCARD_BYTES and not receive.is_over:
                size += len((await receive()).get("body", b""))
    except TimeoutError:
        return


def decompress(body: bytes, encoding: str, most: int) -> bytes:
    """The body without its compression, `most` bytes at most.

    >>> import gzip
    >>> decompress(gzip.compress(b"{}"), "gzip", 10)
    b'{}'
    """
    names = [name.strip().lower() for name in encoding.split(",") if name.strip()]
    names = [name for name in names if name != "identity"]
    if not names:
        return body
    if len(names) > MAX_ENCODINGS or names[0] not in _DECOMPRESSORS:
        raise MediaTypeError(
            "the body is compressed in an unknown way", hint=f"use {', '.join(_DECOMPRESSORS)}"
        )
    try:
        pieces = _DECOMPRESSORS[names[0]](body, most)
    except (zlib.error, zstandard.ZstdError, EOFError, OSError, ValueError) as error:
        raise MalformedError(
            f"the body is not {names[0]}", hint="is Content-Encoding right?"
        ) from error
    if len(pieces) > most:
        raise TooLargeError(
            f"decompressed, the body has more than {most} bytes", hint="send several requests"
        )
    return pieces


def _inflate(body: bytes, most: int, wbits: int) -> bytes:
    stream = zlib.decompressobj(wbits)
    out = stream.decompress(body, most + 1)
    if len(out) <= most and not stream.eof:
        raise EOFError("it is cut off")
    if len(out) <= most and stream.unused_data:
        raise EOFError("something follows it")
    return out


def _gunzip(body: bytes, most: int) -> bytes:
    """All members of a gzip file, one after the other."""
    if body.count(GZIP_MAGIC) > MAX_MEMBERS:
        raise EOFError("it has too many members")
    with gzip.open(io.BytesIO(body)) as stream:
        out = stream.read(most + 1)
    if not out and not body:
        raise EOFError("it is empty")
    return out


def _unzstd(body: bytes, most: int) -> bytes:
    out = bytearray()
    stream = zstandard.ZstdDecompressor(max_window_size=8 << 20).stream_reader(
        body, read_across_frames=True
    )
    while len(out) <= most and (piece := stream.read(PIECE)):
        out += piece
    return bytes(out)


_DECOMPRESSORS: Mapping[str, Callable[[bytes, int], bytes]] = {
    "gzip": _gunzip,
    "deflate": lambda body, most: _inflate(body, most, zlib.MAX_WBITS),
    "zstd": _unzstd,
}


def as_object(body: bytes) -> dict[str, Any]:
    """The JSON object in a body."""
    if sum(map(body.count, (b",", b"[", b"{"))) > MAX_MARKS:
        raise InvalidError(
            f"the body has more than {MAX_MARKS} commas and brackets", hint="send several requests"
        )
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        is_number = b"NaN" in body or b"Infinity" in body
        raise MalformedError(
            f"the body is not JSON: {place}",
            hint="NaN and Infinity are not JSON" if is_number else 'send {"query": …}',
        ) from None
    if not isinstance(value, dict):
        raise InvalidError("the body is no JSON object", hint='send {"query": …}')
    return value


def check_counts(body: Mapping[str, Any], most: int) -> None:
    """Refuse lists of more than `most` texts, and objects of too many keys, by their lengths alone.

    >>> check_counts({"query": "q", "documents": ["a"]}, 1)
    """
    inner = body.get("inputs")
    objects = [body, inner] if isinstance(inner, Mapping) else [body]
    for each in objects:
        _check_keys(each, "the body", None)
    lists = {
        name: each[name] for each in objects for name in COUNTED if isinstance(each.get(name), list)
    }
    for name, values in lists.items():
        if len(values) > most:
            raise TooManyTextsError(
                f"{len(values)} {name}, {most} at most", param=name,
                hint="send several requests, or start the service with a larger --max-documents",
            )  # fmt: skip
        for number, value in enumerate(values):
            if isinstance(value, Mapping):
                _check_keys(value, f"{name}.{number}", name)


def _check_keys(values: Mapping[str, Any], place: str, param: str | None) -> None:
    if len(values) > MAX_KEYS:
        raise InvalidError(
            f"{place} has {len(values)} keys, {MAX_KEYS} at most", hint="send fewer", param=param
        )
