"""The body of a request: read in time, bounded before and after it is decompressed, then JSON."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import orjson
import zstandard

from tamis.serve.errors import (
    ClientGoneError,
    InvalidError,
    MalformedError,
    MediaTypeError,
    SlowClientError,
    TooLargeError,
)
from tamis.serve.settings import Limits

Receive = Callable[[], Awaitable[Any]]
MAX_ENCODINGS = 1
"""A body compressed twice is refused."""
DISCARD_BYTES, DISCARD_SECONDS = 256 << 20, 5.0
"""How much of a body that is too large is read and thrown away, so that its client sees why."""
PIECE = 64 << 10


async def read_json(receive: Receive, headers: Mapping[str, str], limits: Limits) -> dict[str, Any]:
    """The object that a request brings."""
    check_media_type(headers.get("content-type", ""))
    raw = await read_bytes(receive, headers, limits)
    body = decompress(raw, headers.get("content-encoding", ""), limits.body_bytes)
    return as_object(body)


def check_media_type(content_type: str) -> None:
    """Refuse what does not say that it is JSON: a page of another site could send that unasked."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind != "application/json" and not (
        kind.startswith("application/") and kind.endswith("+json")
    ):
        raise MediaTypeError(
            "the body is not said to be JSON", hint="send Content-Type: application/json"
        )


async def read_bytes(receive: Receive, headers: Mapping[str, str], limits: Limits) -> bytes:
    """The body as it came, if it is short enough and comes in time."""
    length = headers.get("content-length", "")
    too_large = length.isdecimal() and int(length[:20]) > limits.body_bytes
    if not too_large:
        try:
            async with asyncio.timeout(limits.body_seconds):
                body = await _collect(receive, limits.body_bytes)
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


async def _collect(receive: Receive, most: int) -> bytes | None:
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
        if not message.get("more_body"):
            return b"".join(pieces)


async def _discard(receive: Receive) -> None:
    """Read on for a while, so that a client that only writes comes to read the answer."""
    size = 0
    try:
        async with asyncio.timeout(DISCARD_SECONDS):
            while size < DISCARD_BYTES:
                message = await receive()
                size += len(message.get("body", b""))
                if message["type"] == "http.disconnect" or not message.get("more_body"):
                    return
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
    except (zlib.error, zstandard.ZstdError, EOFError, ValueError) as error:
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
    return out


def _unzstd(body: bytes, most: int) -> bytes:
    out = bytearray()
    stream = zstandard.ZstdDecompressor(max_window_size=8 << 20).stream_reader(body)
    while len(out) <= most and (piece := stream.read(PIECE)):
        out += piece
    return bytes(out)


_DECOMPRESSORS: Mapping[str, Callable[[bytes, int], bytes]] = {
    "gzip": lambda body, most: _inflate(body, most, 16 + zlib.MAX_WBITS),
    "deflate": lambda body, most: _inflate(body, most, zlib.MAX_WBITS),
    "zstd": _unzstd,
}


def as_object(body: bytes) -> dict[str, Any]:
    """The JSON object in a body."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise MalformedError(
            f"the body is not JSON: {place}", hint="NaN and Infinity are not JSON either"
        ) from None
    if not isinstance(value, dict):
        raise InvalidError("the body is no JSON object", hint='send {"query": …}')
    return value
