"""Who may ask: whoever has a key of the file; without a file, this machine alone."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tamis.errors import InputError
from tamis.serve.errors import ForbiddenError, UnauthorizedError

MIN_KEY_LENGTH = 16
LOCAL_NAMES = {"localhost", "127.0.0.1", "[::1]", "::1"}


@dataclass(frozen=True)
class Keys:
    """The keys that open the service, as digests, so that none can be printed.

    >>> keys = Keys.of(["a-key-of-some-length"])
    >>> keys.has("a-key-of-some-length"), keys.has("another"), keys
    (True, False, Keys())
    """

    digests: tuple[bytes, ...] = field(repr=False)

    @classmethod
    def of(cls, keys: Iterable[str]) -> Keys:
        """These keys."""
        return cls(tuple(map(_digest, keys)))

    @classmethod
    def read(cls, path: str | Path) -> Keys:
        """The keys of a file, one a line; lines that begin with # are comments."""
        try:
            text = Path(path).read_text("utf-8-sig")
        except OSError as error:
            raise InputError(
                f"{path}: {error.strerror}", hint="name a file with one key a line"
            ) from error
        except ValueError:  # which quotes what it could not read
            raise InputError(
                f"{path} is not UTF-8 text", hint="write one key a line: openssl rand -hex 32"
            ) from None
        keys = [key for line in text.splitlines() if (key := line.strip()) and key[0] != "#"]
        if not keys:
            raise InputError(f"{path} has no keys", hint="write one a line: openssl rand -hex 32")
        if any(len(key) < MIN_KEY_LENGTH or not key.isascii() for key in keys):
            raise InputError(
                f"{path} has a key of less than {MIN_KEY_LENGTH} ASCII characters",
                hint="make a long one: openssl rand -hex 32",
            )
        return cls.of(keys)

    def has(self, key: str) -> bool:
        """Whether this is one of the keys, in a time that does not depend on which."""
        digest = _digest(key)
        return bool(sum([hmac.compare_digest(digest, each) for each in self.digests]))


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


def key_of(headers: Mapping[str, str]) -> str | None:
    """The key that a request brings.

    >>> key_of({"authorization": "Bearer abc"}), key_of({"x-api-key": "abc"}), key_of({})
    ('abc', 'abc', None)
    """
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and value.strip():
        return value.strip()
    return headers.get("x-api-key")


def check_key(keys: Keys | None, headers: Mapping[str, str], host: str) -> None:
    """Refuse a request that may not ask.

    Without keys the name it came to has to be this machine's: else a page in a browser could have
    its own name point here.
    """
    if keys is None:
        if host_name(headers.get("host", "")) not in {*LOCAL_NAMES, host}:
            raise ForbiddenError(
                "this service is for this machine alone", hint="start it with --api-key-file"
            )
        return
    key = key_of(headers)
    if key is None:
        raise UnauthorizedError("there is no key", hint="send Authorization: Bearer KEY")
    if not keys.has(key):
        raise UnauthorizedError("the key is wrong", hint="send one of the service's keys")


def host_name(header: str) -> str:
    """The host of a Host header without its port.

    >>> host_name("localhost:8080"), host_name("[::1]:80")
    ('localhost', '[::1]')
    """
    if header.startswith("["):
        return header.partition("]")[0] + "]"
    return header.partition(":")[0].lower()
