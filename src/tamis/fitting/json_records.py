"""Frozen dataclasses as plain JSON, and back: what manifests and workspaces are written with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

Record = TypeVar("Record")


def to_json(record: Any) -> dict[str, Any]:
    """The fields of a record, nested ones too."""
    return asdict(record)


def from_json(kind: type[Record], data: Mapping[str, Any]) -> Record:
    """The record that `to_json` wrote; fields it does not name have their defaults.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Point:
    ...     at: tuple[float, ...]
    ...     name: str | None = None
    >>> from_json(Point, {"at": [1.0, 2.0]})
    Point(at=(1.0, 2.0), name=None)
    """
    hints = get_type_hints(kind)
    names = [field.name for field in fields(cast(Any, kind)) if field.name in data]
    return kind(**{name: _value(hints[name], data[name]) for name in names})


def _value(hint: Any, value: Any) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        if value is None:
            return None
        return _value(next(argument for argument in arguments if argument is not NoneType), value)
    if origin is tuple:
        kinds = [arguments[0]] * len(value) if arguments[-1] is Ellipsis else arguments
        return tuple(_value(kind, item) for kind, item in zip(kinds, value, strict=True))
    return from_json(cast(Any, hint), value) if is_dataclass(hint) else value
