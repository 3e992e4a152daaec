"""The tables of the results are those that the kept values of every query give."""

import importlib
import json
import re
from pathlib import Path

import pytest
from benchmarks.fitting import MEASURED, table

from tamis.evaluation.significance import t_interval

ROOT = Path(__file__).parents[1]


def results() -> str:
    """The pages of results, one after the other."""
    pages = sorted((ROOT / "docs" / "results").glob("*.md"))
    return "\n".join(page.read_text("utf-8") for page in pages)


def test_the_tables_of_the_results_are_what_was_measured() -> None:
    page = results().splitlines()
    rows = [line for line in table() if line]
    assert len(rows) > 60
    assert [line for line in rows if line not in page] == []


@pytest.mark.parametrize(("benchmark", "page"), [("evidence", "evidence"), ("choice", "choice")])
def test_the_tables_of_a_study_are_those_of_its_cells(
    benchmark: str, page: str, capsys: pytest.CaptureFixture[str]
) -> None:
    module = importlib.import_module(f"benchmarks.{benchmark}")
    for arguments in (["table1"], ["figure1"]) if benchmark == "evidence" else ([],):
        module.main(arguments)
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    text = (ROOT / "docs" / "results" / f"{page}.md").read_text("utf-8").splitlines()
    assert len(rows) > 10 and [row for row in rows if row not in text] == []


def test_what_the_results_say_was_tried_is_what_was_kept() -> None:
    page = results()
    cells = {path.stem: json.loads(path.read_text("utf-8")) for path in MEASURED.glob("*.json")}
    ran = {name: cell["seconds"] for name, cell in cells.items()}
    others = max(seconds for name, seconds in ran.items() if not name.startswith("openbookqa"))
    assert f"none ran longer than {others} seconds" in page
    long = sorted(seconds for seconds in ran.values() if seconds > others)
    assert f"ran {long[1]} to {long[-1]:,} seconds" in page
    assert f"{long[0]} and {ran['openbookqa-512-1']}" in page
    kinds = ("cross-encoder", "pseudo-labelled", "infused", "distilled")
    assert not [cell for cell in cells.values() if cell["chosen"].startswith(kinds)]
    untrained = [cell["chosen"] for name, cell in cells.items() if name.split("-")[1] in "08"]
    assert len(untrained) == 16 and not any("tuned" in chosen for chosen in untrained)


def test_known_words_of_a_t5_are_told_over_trials() -> None:
    page = (ROOT / "docs" / "explanation" / "training.md").read_text("utf-8")
    section = page[page.index("### Target words of a FLAN-T5") :]
    rows = re.findall(r"^\| [123] \| \.(\d+) \| \.(\d+) \| [+−]", section, re.M)
    differences = [(int(one) - int(other)) / 10_000 for one, other in rows]
    interval = t_interval(differences)
    assert len(differences) == 3 and interval is not None
    low, high = (f"{abs(end):.3f}".removeprefix("0") for end in (interval.low, interval.high))
    assert interval.low < 0 < interval.high
    assert f"95% interval −{low} to +{high}, three trials" in section


NAMED = "docs/explanation/training.md docs/explanation/rerankers-compared.md"
NAMED += " docs/explanation/scoring-speed.md docs/how-to/rerank.md benchmarks/README.md"
NAMED += " benchmarks/learning.py benchmarks/scorers.py src/tamis/training/recipes.py"


@pytest.mark.parametrize("name", NAMED.split())
def test_the_t5_weights_are_called_what_they_are(name: str) -> None:
    words = " ".join((ROOT / name).read_text("utf-8").split())
    assert "FLAN-T5-small derivative distilled for writing titles" in words
