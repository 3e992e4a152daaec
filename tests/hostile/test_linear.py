"""Small inputs that would take minutes: every reader is linear in the length of its text."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("megabyte.py")
READERS = (
    "trec_documents trec_topics xml_entities markdown restructured plain html jsonl tables "
    "line_formats sentences passages analyzers snippets near_duplicates"
).split()


def test_every_reader_of_the_script_is_run() -> None:
    source = SCRIPT.read_text()
    assert [name for name in READERS if f"    {name},\n" not in source] == []
    assert source.partition("READERS = (")[2].partition(")")[0].count(",") == len(READERS)


@pytest.mark.parametrize("reader", READERS)
def test_a_megabyte_of_punctuation_is_read_in_linear_time(reader: str) -> None:
    command = [sys.executable, str(SCRIPT), reader]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
