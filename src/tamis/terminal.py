"""Text as it may be sent to a terminal: characters that would act on it are made visible.

What is written to files, and JSON, keeps them. Words for a person go to stderr by `tell`.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_KEEP = "\n\t"
_DELETE = 0x7F
_C0, _C1, _SURROGATES = range(0x20), range(0x80, 0xA0), range(0xD800, 0xE000)
_BIDIRECTIONAL = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_PICTURES = (
    {code: chr(0x2400 + code) for code in _C0 if chr(code) not in _KEEP}
    | {_DELETE: "\N{SYMBOL FOR DELETE}"}
    | dict.fromkeys((*_C1, *_BIDIRECTIONAL, *_SURROGATES), REPLACEMENT)
)
"""One character for one, so that places in a text stay where they are and tables aligned."""


def visible(text: str) -> str:
    r"""Text of which no character moves the cursor, changes the terminal or the reading direction.

    New lines and tabs stay. Control characters become their pictures, others U+FFFD.

    >>> visible("a\x1b[2Jb\u202ec\n")
    'a␛[2Jb�c\n'
    """
    return text if text.isascii() and text.isprintable() else text.translate(_PICTURES)


def tell(text: str, end: str = "\n") -> None:
    """Print on stderr at once; where nobody reads it any more, work goes on in silence."""
    try:
        print(text, end=end, file=sys.stderr, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def plain_table(**options: Any) -> Table:
    """A table of aligned columns without lines, which `cut` and `awk` can read too."""
    from rich.table import Table

    return Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), **options)
