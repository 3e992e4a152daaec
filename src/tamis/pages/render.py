"""HTML from the templates of this package; every value that they show is escaped."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import tamis
from tamis.pages import text_format

if TYPE_CHECKING:
    from jinja2 import Environment


def render(template: str, **values: Any) -> str:
    """A page or a part of one; a name that a template uses and nobody gave is an error.

    >>> values = {"heads": ["run"], "rows": [["a<b"]], "text_columns": 1, "title": "", "notes": []}
    >>> render("notebook.html", **values).count("<td>a&lt;b</td>")
    1
    """
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("tamis.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["version"] = tamis.__version__
    environment.filters |= {
        "signed": text_format.signed,
        "counted": text_format.counted,
        "listed": text_format.listed,
        "p_value": text_format.p_value,
        "p_text": text_format.p_text,
        "fixed": _fixed,
        "interval": _interval,
        "thousands": "{:,}".format,
    }
    return environment


def _fixed(value: float | None, digits: int = 4) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _interval(interval: Any) -> str:
    return "none" if interval is None else text_format.interval(interval.low, interval.high)
