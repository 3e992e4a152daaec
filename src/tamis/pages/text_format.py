"""Numbers, counts and names as pages, tables and log lines word them: plain text, never markup."""

from __future__ import annotations

from collections.abc import Sequence


def signed(value: float, digits: int = 4) -> str:
    """A difference with its sign; what rounds to zero has none.

    >>> signed(0.0213), signed(-0.5, 2), signed(-0.00001)
    ('+0.0213', '−0.50', '0.0000')
    """
    text = f"{value:+.{digits}f}"
    return text.replace("-", "−") if float(text) else text[1:]


def percent(value: float) -> str:
    """A share; what rounds to zero has no sign.

    >>> percent(0.124), percent(-0.5), percent(-0.004)
    ('12%', '−50%', '0%')
    """
    text = f"{value:.0%}"
    return "0%" if text == "-0%" else text.replace("-", "−")


def counted(queries: int) -> str:
    """So many queries, in words.

    >>> counted(1), counted(5000)
    ('1 query', '5,000 queries')
    """
    return f"{queries:,} {'query' if queries == 1 else 'queries'}"


def listed(names: Sequence[str]) -> str:
    """Names in a sentence.

    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def shorten(text: str, most: int) -> str:
    """At most so many characters, on one line, with an ellipsis where something was cut.

    >>> shorten("how do  I cancel my order", 12)
    'how do I ca…'
    """
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def interval(low: float, high: float) -> str:
    """An interval of differences.

    >>> interval(-0.01, 0.02)
    '−0.0100 to +0.0200'
    """
    return f"{signed(low)} to {signed(high)}"


def p_value(p: float | None) -> str:
    """A p-value for a table.

    >>> p_value(0.04321), p_value(0.00001), p_value(None)
    ('0.0432', '<0.0001', '–')
    """
    if p is None:
        return "–"
    return f"{p:.4f}" if p >= 0.0001 else "<0.0001"


def p_text(p: float) -> str:
    """A p-value in a sentence.

    >>> p_text(0.0123), p_text(0.00001)
    ('p = 0.0123', 'p < 0.0001')
    """
    return f"p = {p:.4f}" if p >= 0.0001 else "p < 0.0001"


def size_text(num_bytes: int) -> str:
    """A number of bytes as people say it.

    >>> size_text(812), size_text(182_400_000), size_text(2_500_000_000)
    ('812 bytes', '182 MB', '2.5 GB')
    """
    if num_bytes < 1000:
        return f"{num_bytes} bytes"
    power = min(4, (len(str(num_bytes)) - 1) // 3)
    value = num_bytes / 1000**power
    return f"{value:.{1 if value < 10 else 0}f} {('kB', 'MB', 'GB', 'TB')[power - 1]}"
