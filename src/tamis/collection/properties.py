"""Author and date from the properties of a file, as fields by the names that people filter by."""

from __future__ import annotations

import re
from datetime import date, datetime
from itertools import compress

_PDF_DATE = re.compile(r"(?:D:)?([0-9]{4})([0-9]{2})([0-9]{2})")
_ISO_DATE = re.compile(r"([0-9]{4})(-[0-9]{2})?(-[0-9]{2})?(?![0-9])")


def property_fields(author: object, written: object) -> dict[str, str]:
    """The fields `author` and `date`, without those that the properties do not have.

    >>> property_fields(" Ada  Byron ", "D:20240517120000Z")
    {'author': 'Ada Byron', 'date': '2024-05-17'}
    >>> property_fields("", "tomorrow")
    {}
    """
    name = " ".join(author.split()) if isinstance(author, str) else ""
    values = {"author": name.encode(errors="replace").decode(), "date": _iso_day(written)}
    return dict(compress(values.items(), values.values()))


def _iso_day(written: object) -> str:
    """A date as ISO 8601 without its time; nothing where it is none."""
    if isinstance(written, datetime):
        return written.date().isoformat()
    text = written.strip() if isinstance(written, str) else ""
    if match := _PDF_DATE.match(text):
        text = "-".join(match.groups())
    match = _ISO_DATE.match(text)
    try:
        date.fromisoformat(f"{match[0]}-01-01"[:10] if match else "")
    except ValueError:
        return ""
    return match[0] if match else ""
