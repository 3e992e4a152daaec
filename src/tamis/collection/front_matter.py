"""Front matter of Markdown: YAML between lines of `---`, or TOML between lines of `+++`.

Values that are no strings become JSON, as in records; dates become ISO 8601. Numbers stay as they
are written, for YAML 1.1 reads 1.10 as 1.1 and 012 as 10. Nothing is constructed but strings,
numbers, dates, lists and mappings.
"""

from __future__ import annotations

import datetime
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from tamis.collection._records import BadValueError, fields_of
from tamis.collection.file_content import Unreadable

MAX_CHARACTERS = 65_536
MAX_NESTING = 20
"""libyaml's composer calls itself at every level, and a deep one would end the process."""
_YAML = re.compile(
    r"\A---[ \t]*\n(?=[\w\"'-]+[ \t]*:|#)(.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.S | re.M
)
_TOML = re.compile(r"\A\+\+\+[ \t]*\n(.*?)^\+\+\+[ \t]*(?:\n|\Z)", re.S | re.M)
_TITLE_LINE = re.compile(r"^title:[ \t]*+([^>|\s].*)", re.M)
_TOML_PLACE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")
_NOT_PLAIN = ("[", "{", "|", ">", "&", "*")
"""What begins a value of YAML or TOML that is no plain text."""
_HINT = "write YAML between lines of --- or TOML between lines of +++"


@dataclass(frozen=True)
class FrontMatter:
    """What front matter says, and where in the text it ends."""

    end: int
    title: str = ""
    fields: Mapping[str, str] | None = None
    problem: Unreadable | None = None


def read_front_matter(text: str) -> FrontMatter:
    r"""The front matter of a text; its end is 0 where there is none.

    >>> matter = read_front_matter("---\ntitle: Sieves\ndate: 2024-05-01\ntags: [drum]\n---\nText")
    >>> matter.title, matter.fields
    ('Sieves', {'date': '2024-05-01', 'tags': '["drum"]'})
    """
    yaml_block, toml_block = _YAML.match(text), _TOML.match(text)
    block = yaml_block or toml_block
    if block is None:
        return FrontMatter(0)
    parse = _parse_yaml if yaml_block else _parse_toml
    try:
        if len(block[1]) > MAX_CHARACTERS:
            raise _broken(0, f"front matter of more than {MAX_CHARACTERS:,} characters")
        values = parse(block[1])
        if values is None:  # comments alone: a line, a heading and a line look like that
            return FrontMatter(0)
        return _converted(block.end(), values)
    except Unreadable as problem:
        title_line = _TITLE_LINE.search(block[1])
        value = title_line[1].rstrip(" \t") if title_line else ""
        title = "" if value.startswith(_NOT_PLAIN) else _unquoted(value)
        return FrontMatter(block.end(), title, problem=problem)


def _broken(line: int, problem: str) -> Unreadable:
    """A fault at a line of the block, which begins on the second line of the file."""
    return Unreadable(line + 2, problem, _HINT)


def _unquoted(value: str) -> str:
    is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
    return value[1:-1] if is_quoted else value


def _converted(end: int, values: Any) -> FrontMatter:
    if not isinstance(values, dict):
        raise _broken(0, "the front matter is no mapping of names to values")
    named = {str(name): _as_text(value) for name, value in values.items()}
    title = named.pop("title", "")
    if not isinstance(title, str):
        title = "" if isinstance(title, list | dict | None) else str(title)
    try:
        fields = fields_of({name: value for name, value in named.items() if value != ""})
    except BadValueError as error:
        raise _broken(0, f"front matter: {error.problem}") from None
    return FrontMatter(end, title, fields)


def _as_text(value: Any) -> Any:
    """Dates as ISO 8601; those inside of lists are written so by JSON."""
    is_time = isinstance(value, datetime.date | datetime.time)
    return value.isoformat() if is_time else value


# YAML


def _parse_yaml(block: str) -> Any:
    import yaml

    try:
        _refuse_hostile(block)
        return yaml.load(block, Loader=_loader())  # derived from the safe loader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = " ".join(str(error.problem or error.context).split())
        line = min(mark.line, block.count("\n") - 1) if mark else 0
        raise _broken(line, f"the front matter is not YAML: {problem}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        problem = str(error).partition("\n")[0]
        raise _broken(0, f"the front matter is not YAML: {problem}") from None


def _refuse_hostile(block: str) -> None:
    """Refuse what would take stack or memory out of proportion: deep nesting, aliases."""
    import yaml

    depth = 0
    for event in yaml.parse(block, Loader=_loader()):
        if isinstance(event, yaml.AliasEvent):
            raise _broken(_line_of(event), "the front matter has an alias (*name)")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_NESTING:
                line = _line_of(event)
                raise _broken(line, f"the front matter is nested more than {MAX_NESTING} deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _line_of(event: Any) -> int:
    return int(event.start_mark.line)


@cache
def _loader() -> Any:
    """PyYAML's safe loader, compiled where it is, that takes fewer words for other types.

    Besides strings it knows true and false, null, whole numbers without leading zeros, and dates.
    """
    import yaml

    safe: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(safe):  # type: ignore[misc]
        yaml_implicit_resolvers: dict[str, list[Any]] = {}  # noqa: RUF012

    tag = "tag:yaml.org,2002:"
    Loader.add_implicit_resolver(
        tag + "bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
    )
    Loader.add_implicit_resolver(
        tag + "null", re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""]
    )
    Loader.add_implicit_resolver(
        tag + "int", re.compile(r"^-?(?:0|[1-9][0-9]{0,17})$"), list("-0123456789")
    )
    dates = [
        resolver
        for resolver in safe.yaml_implicit_resolvers["2"]
        if resolver[0] == tag + "timestamp"
    ]
    for name, pattern in dates:
        Loader.add_implicit_resolver(name, pattern, list("0123456789"))
    Loader.add_constructor(tag + "timestamp", _date_or_text)
    return Loader


def _date_or_text(loader: Any, node: Any) -> Any:
    try:
        return loader.construct_yaml_timestamp(node)
    except ValueError:  # such as 0000-00-00
        return node.value


# TOML


def _parse_toml(block: str) -> Any:
    try:
        return tomllib.loads(block, parse_float=str)
    except (tomllib.TOMLDecodeError, ValueError, RecursionError) as error:
        place = _TOML_PLACE.search(str(error))
        line = int(place[1]) - 1 if place and place[1] else 0
        problem = _TOML_PLACE.sub("", str(error))
        raise _broken(line, f"the front matter is not TOML: {problem}") from None
