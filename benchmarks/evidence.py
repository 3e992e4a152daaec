"""Evidence selection on MultiRC, and whether a first training on BM25 or alignment helps it.

    TAMIS_DATA=… TAMIS_MODELS=… python -m benchmarks.evidence table1 --work FOLDER --max-time 45m
    python -m benchmarks.evidence table1
    python -m benchmarks.evidence figure1 --svg FILE
    python -m benchmarks.evidence table2

Table 1, table 2 and figure 1 of Yadav, Bethard and Surdeanu (SIGIR 2020). Every cell is kept in the
work folder when it is done, and so is a half-done training; the same command goes on where it was
stopped. Without --work the cells of the results are shown, which lie in `measured/`. Cells that the
time did not suffice for are printed empty, with the hours they would take. MultiRC's dev set is the
test set: rules are tuned, and settings chosen, on training paragraphs.
"""

from __future__ import annotations

import argparse
import importlib
import os
from pathlib import Path

from benchmarks.evidence_cells import MEASURED, Study, StudySettings
from benchmarks.evidence_tables import draw_figure1, print_figure1, print_table1
from tamis.durable import parse_time

TABLE2_MODULE = "benchmarks.choice"
"""The multiple-choice table has a module of its own, with a function `main`."""


def main(arguments: list[str] | None = None) -> None:
    """Run the cells of a table for as long as there is time, and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("table1", "table2", "figure1"))
    parser.add_argument("--work", type=Path, help="where cells are kept; default: those measured")
    parser.add_argument("--max-time", default="0m", help="for cells that are not there; 0m: none")
    parser.add_argument("--base", default=StudySettings.base, help="a folder of TAMIS_MODELS")
    parser.add_argument("--svg", type=Path, help="draw figure 1 into this file")
    parser.add_argument("--questions", type=int, default=StudySettings.questions)
    parser.add_argument("--query", default=StudySettings.query)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    known, rest = parser.parse_known_args(arguments)
    if known.what == "table2":
        work = ["--work", str(known.work)] if known.work else []  # the rest is for it alone
        importlib.import_module(TABLE2_MODULE).main([*work, *rest])
        return
    if rest:
        parser.error(f"unknown arguments: {' '.join(rest)}")
    settings = StudySettings(
        questions=known.questions, query=known.query, seeds=known.seeds, base=known.base
    )
    data, models = (Path(os.environ.get(name, "")) for name in ("TAMIS_DATA", "TAMIS_MODELS"))
    study = Study(settings, data / "multirc", models, known.work or MEASURED, known.threads)
    if known.max_time == "0m":
        study = study.as_kept()
    else:
        study.run(parse_time(known.max_time, "m"))
    if known.what == "table1":
        print_table1(study)
        return
    print_figure1(study)
    if known.svg:
        known.svg.write_text(draw_figure1(study), "utf-8")


if __name__ == "__main__":
    main()
