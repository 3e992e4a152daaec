"""The tables of the results are those that the kept values of every query give."""

from pathlib import Path

from benchmarks.fitting import table

ROOT = Path(__file__).parents[1]


def test_the_tables_of_the_results_are_what_was_measured() -> None:
    page = (ROOT / "docs" / "results.md").read_text("utf-8").splitlines()
    rows = [line for line in table() if line]
    assert len(rows) > 60
    assert [line for line in rows if line not in page] == []
