"""The settings of a service, as the command line gives them and workers get them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from ipaddress import ip_address
from typing import Any, Literal, get_args

DialectName = Literal["auto", "tei", "cohere", "superset", "tamis"]
DIALECT_NAMES: tuple[DialectName, ...] = get_args(DialectName)


@dataclass(frozen=True)
class ModelPlace:
    """A sieve or a model by the name that requests use."""

    name: str
    path: str


@dataclass(frozen=True)
class Limits:
    """What one request may bring, and what may wait."""

    documents: int = 1000
    """Documents a request."""
    text_characters: int = 100_000
    """Characters a text, and a query."""
    body_bytes: int = 32 << 20
    """Bytes of a body, also after it is decompressed."""
    queued_requests: int = 512
    """Requests a model that wait or run."""
    queued_tokens: int = 2_000_000
    """Their tokens, estimated before they are tokenised."""
    batch_tokens: int = 8192
    """Tokens that are scored together."""
    body_seconds: float = 30.0
    """How long a client may take to send a request."""


@dataclass(frozen=True)
class ServeSettings:
    """Everything that `tamis serve` is told."""

    models: tuple[ModelPlace, ...]
    host: str = "127.0.0.1"
    port: int = 8080
    workers: int = 1
    api_key_file: str | None = None
    cors_origins: tuple[str, ...] = ()
    dialect: DialectName = "auto"
    limits: Limits = Limits()
    latency: float | None = None
    """Seconds a request may take unless it says so itself."""
    threads: int | None = None
    device: str = "auto"
    dtype: str = "auto"
    trust_remote_code: str | None = None
    """The one model whose code may run."""
    shutdown_seconds: float = 30.0
    """How long requests in flight may take once the service ends."""

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it: an address says so, a name does not.

        >>> [ServeSettings((), host).is_loopback for host in ("127.0.0.9", "127.example.com")]
        [True, False]
        """
        try:
            return self.host == "localhost" or ip_address(self.host).is_loopback
        except ValueError:
            return False

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, for a worker process."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> ServeSettings:
        """The settings that `to_json` gave.

        >>> settings = ServeSettings((ModelPlace("a", "a.sieve"),), port=9)
        >>> ServeSettings.from_json(settings.to_json()) == settings
        True
        """
        models = tuple(ModelPlace(**place) for place in values["models"])
        limits, origins = Limits(**values["limits"]), tuple(values["cors_origins"])
        return cls(**{**values, "models": models, "limits": limits, "cors_origins": origins})
