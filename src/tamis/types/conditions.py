r"""Conditions on the fields of documents, such as `author=ada|bob` or `date>=2024`.

What a condition means for the documents of an index is left to `search.filters`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tamis.errors import InputError

EQUALITY, COMPARISONS = ("=", "!="), (">=", "<=", ">", "<")
OPERATORS = (*EQUALITY, *COMPARISONS)
_TOKEN = re.compile(r"\\[\\|*=<>! ]|.", re.S)
_SPECIAL_IN_VALUES, _SPECIAL_IN_NAMES = re.compile(r"[\\|*]"), re.compile(r"[\\=<>!]")
_HINT = "write FIELD=VALUE, or one of != >= <= > < for the =, such as author=ada or date>=2024"


@dataclass(frozen=True)
class Condition:
    r"""What a field must be: one of some values, one that begins so, not one of them, less, more.

    >>> Condition.parse("author = ada|bob")
    Condition(field='author', operator='=', values=('ada', 'bob'), prefixes=())
    >>> Condition.parse("id=guides/*").prefixes, str(Condition("name", "=", ("a|b",)))
    (('guides/',), 'name=a\\|b')
    """

    field: str
    operator: str
    values: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.operator not in OPERATORS:
            raise InputError(f"no operator {self.operator!r}", hint=f"one of {' '.join(OPERATORS)}")
        if not self.field:
            raise InputError(f"the condition {str(self)!r} names no field", hint=_HINT)
        if self.operator in COMPARISONS and (self.prefixes or len(self.values) != 1):
            raise InputError(
                f"{str(self)!r} does not compare with one value",
                hint="several values, and a * at the end, are for = and !=",
            )
        if not self.values and not self.prefixes:
            raise InputError(f"the condition on {self.field!r} has no value", hint=_HINT)

    @classmethod
    def parse(cls, text: str) -> Condition:
        r"""The condition that is written so; a backslash takes its meaning from `| * = < > !`.

        >>> Condition.parse(r"tags!=c\|c").values
        ('c|c',)
        """
        tokens = _TOKEN.findall(text)
        for at, token in enumerate(tokens):
            pair = "".join(tokens[at : at + 2])
            operator = pair if pair in ("==", "!=", ">=", "<=") else token
            if operator in (*OPERATORS, "=="):
                values = _values(text, tokens[at + len(operator) :])
                name = _spelled(_stripped(tokens[:at]))
                return cls(name, "=" if operator == "==" else operator, *values)
        raise InputError(f"{text!r} is no condition", hint=_HINT)

    def __str__(self) -> str:
        values = [_escaped(value, _SPECIAL_IN_VALUES) for value in self.values]
        prefixes = [_escaped(prefix, _SPECIAL_IN_VALUES) + "*" for prefix in self.prefixes]
        name = _escaped(self.field, _SPECIAL_IN_NAMES)
        return f"{name}{self.operator}{'|'.join(values + prefixes)}"


Where = str | Condition | Iterable[str | Condition] | None
"""Conditions as they are handed in: one or several, written or made."""


def as_conditions(where: Where) -> tuple[Condition, ...]:
    """All of the conditions, each made one.

    >>> [str(condition) for condition in as_conditions(["a=1", Condition("b", "<", ("2",))])]
    ['a=1', 'b<2']
    """
    several: Iterable[object] = ()
    if isinstance(where, str | Condition):
        several = (where,)
    elif isinstance(where, Iterable) and not isinstance(where, Mapping):
        several = where
    elif where is not None:
        raise InputError(f"{where!r} is no condition", hint=_HINT)
    return tuple(_condition(one) for one in several)


def _condition(one: object) -> Condition:
    if isinstance(one, str):
        return Condition.parse(one)
    if isinstance(one, Condition):
        return one
    raise InputError(f"{one!r} is no condition", hint=_HINT)


def _values(text: str, tokens: list[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Values between bars, and those with a star at the end."""
    values: list[str] = []
    prefixes: list[str] = []
    start = 0
    for end in [at for at, token in enumerate([*tokens, "|"]) if token == "|"]:
        value = _stripped(tokens[start:end])
        is_prefix = value[-1:] == ["*"]
        value = value[:-1] if is_prefix else value
        if "*" in value:
            raise InputError(
                f"{text!r} has a * that is not at the end of a value",
                hint=r"values may end with *; for the character itself write \*",
            )
        (prefixes if is_prefix else values).append(_spelled(value))
        start = end + 1
    return tuple(values), tuple(prefixes)


def _stripped(tokens: list[str]) -> list[str]:
    """Without the spaces around, but for those with a backslash."""
    ends = [at for at, token in enumerate(tokens) if token != " "]
    return tokens[ends[0] : ends[-1] + 1] if ends else []


def _spelled(tokens: list[str]) -> str:
    return "".join(token[-1] for token in tokens)


def _escaped(text: str, special: re.Pattern[str]) -> str:
    """The text with a backslash before what would have a meaning there."""
    escaped = special.sub(r"\\\g<0>", text)
    if escaped.startswith((" ", "=")):
        escaped = "\\" + escaped
    return escaped[:-1] + "\\ " if text.endswith(" ") and len(text) > 1 else escaped
