"""Settings as text: from the command line to values of the right type."""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, Literal, Union, get_args, get_origin

from tamis.errors import InputError

WORD_PAIRS: Mapping[str, tuple[str, str]] = types.MappingProxyType(
    {
        "baseline": ("true", "false"),
        "reverse": ("false", "true"),
        "antonyms": ("hot", "cold"),
        "related": ("apple", "orange"),
        "unrelated": ("hot", "orange"),
        "subwords": ("▁ab", "▁de"),
    }
)
"""The words for relevant and not relevant that table 4 of Nogueira compares."""


def as_texts(settings: Mapping[str, Any]) -> dict[str, str]:
    """Settings of Python as the command line writes them.

    >>> as_texts({"learning_rate": 1e-5, "max_grad_norm": None, "words": ("hot", "cold")})
    {'learning_rate': '1e-05', 'max_grad_norm': 'none', 'words': 'hot,cold'}
    """
    return {
        name: ",".join(map(str, value)) if isinstance(value, tuple | list)
        else "none" if value is None else str(value)
        for name, value in settings.items()
    }  # fmt: skip


def by_field(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings by the fields of the recipe.

    `batch_size` alone is what a step of the optimizer sees: gradients are not accumulated.

    >>> by_field({"learning_rate": "1e-5", "batch_size": "8"})
    {'learning_rate': '1e-5', 'batch_size': '8', 'gradient_accumulation_steps': '1'}
    """
    by_name = dict(settings)
    if "batch_size" in settings:
        by_name.setdefault("gradient_accumulation_steps", "1")
    return by_name


def read_setting(name: str, text: str, kind: Any, now: Any) -> Any:
    """A value of a type, from text; `now` is the value it takes the place of.

    >>> [read_setting("max_grad_norm", text, float | None, 1.0) for text in ("1e-4", "none")]
    [0.0001, None]
    """
    if get_origin(kind) in (Union, types.UnionType):
        if text.strip().lower() == "none":
            return None
        kind = next(option for option in get_args(kind) if option is not type(None))
    if get_origin(kind) is tuple:
        return _words(text)
    if get_origin(kind) is Literal:
        choices = {str(choice): choice for choice in get_args(kind)}
        if text not in choices:
            raise InputError(f"{name} cannot be {text!r}", hint=f"say {', '.join(choices)}")
        return choices[text]
    if kind is str:
        return text
    try:
        return {"true": True, "false": False}[text.lower()] if kind is bool else kind(text)
    except (KeyError, ValueError):
        expected = {bool: "true or false", int: "a whole number"}.get(kind, "a number")
        raise InputError(
            f"{name} cannot be {text!r}", hint=f"give {expected}; now it is {now}"
        ) from None


def _words(text: str) -> tuple[str, str]:
    """The two words of a name of `WORD_PAIRS`, or two words between which a comma stands."""
    words = WORD_PAIRS.get(text) or tuple(word.strip() for word in text.split(","))
    if len(words) != 2 or not all(words):
        raise InputError(
            f"{text!r} are not two words",
            hint=f"give two, as in hot,cold, or one of {', '.join(WORD_PAIRS)}",
        )
    return words[0], words[1]


def unknown_name(name: str, known_names: Iterable[str], kind: str) -> InputError:
    """What to say to a name that is not among the known."""
    near = get_close_matches(name, list(known_names), n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(known_names)}"
    return InputError(f"there is no {kind} {name!r}", hint=hint)
