"""Jupyter notebooks: the text and code of their cells; what the code printed is left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from tamis.collection.file_content import Unreadable, read_bytes

HINT = "open it in Jupyter and save it again"


def read_notebook(path: Path) -> tuple[str, str, str]:
    """The title in the metadata, all cells, and the cells of Markdown, in which headings stand."""
    raw = read_bytes(path)
    if not raw.strip():
        return "", "", ""
    try:
        notebook = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise Unreadable(error.lineno, f"this notebook is not JSON: {error.msg}", HINT) from None
    cells = [(_kind(cell), _source(cell)) for cell in _cells(notebook)]
    metadata = notebook.get("metadata")
    title = metadata.get("title") if isinstance(metadata, dict) else None
    text = "\n\n".join(source for _, source in cells if source.strip())
    prose = "\n\n".join(source for kind, source in cells if kind == "markdown")
    return title if isinstance(title, str) else "", text, prose


def _cells(notebook: Any) -> list[Any]:
    """The cells of a notebook; before version 4 they stood in worksheets."""
    if isinstance(notebook, dict):
        sheets = notebook.get("worksheets")
        holders = [notebook, *(sheets if isinstance(sheets, list) else [])]
        cells = [holder.get("cells") for holder in holders if isinstance(holder, dict)]
        if any(isinstance(cell_list, list) for cell_list in cells):
            return [
                cell for cell_list in cells if isinstance(cell_list, list) for cell in cell_list
            ]
    raise Unreadable(1, "this is JSON, but no notebook: it has no cells", HINT)


def _kind(cell: Any) -> str:
    kind = cell.get("cell_type") if isinstance(cell, dict) else None
    return "markdown" if kind in ("markdown", "heading") else str(kind)


def _source(cell: Any) -> str:
    if not isinstance(cell, dict):
        return ""
    source = cell.get("source", cell.get("input", ""))
    lines = source if isinstance(source, list) else [source]
    text = "".join(line for line in lines if isinstance(line, str))
    level = cell.get("level", 1)
    is_heading = cell.get("cell_type") == "heading" and isinstance(level, int)
    return f"{'#' * max(1, min(level, 6))} {text}" if is_heading else text
