"""The evidence tables: the paper's figures beside ours, empty where a cell was not run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.evidence_cells import ARMS, GOLD_EPOCHS, SCORE_EPOCHS, TEACHERS, Study
from tamis.errors import InputError
from tamis.evaluation.significance import t_interval
from tamis.pages.charts import Line, Point, line_panel
from tamis.pages.svg import WIDE, stacked_file
from tamis.tasks.evidence_data import QUERY_FORMS
from tamis.tasks.evidence_measures import f1_of_means_test

Cell = Mapping[str, Any]
MEASURES = ("precision", "recall", "f1")


class PaperRow(NamedTuple):
    """A row of the paper's table 1: percent, None where the paper has none."""

    name: str
    evidence: tuple[float, float, float] | None
    answers: tuple[float, float, float | None] | None
    matched: float | None


PAPER = {
    "bm25": PaperRow("BM25", (42.6, 56.1, 48.4), (64.3, 60.0, None), None),
    "alignment": PaperRow("alignment", (62.4, 55.6, 58.8), (72.6, 69.6, 25.9), None),
    "untrained": PaperRow("pretrained encoder", None, None, 41.0),
    "step1.bm25": PaperRow("BM25 scores", (53.8, 54.8, 54.3), (70.1, 67.9, 21.8), 54.8),
    "step1.alignment": PaperRow("alignment scores", (63.9, 60.9, 62.4), (72.0, 69.8, 24.6), 54.6),
    "arm.gold": PaperRow("gold", (64.5, 64.6, 64.6), (70.5, 68.0, 24.9), 47.9),
    "arm.bm25": PaperRow("BM25 scores, then gold", (65.4, 67.1, 66.2), (73.1, 71.2, 25.7), 52.1),
    "arm.alignment": PaperRow(
        "alignment scores, then gold", (65.1, 69.6, 67.3), (74.3, 72.7, 27.1), 52.4
    ),
}
"""Yadav, Bethard and Surdeanu, table 1."""
SHARES = {
    "untrained": "untrained", "step1.bm25": "bm25 scores", "step1.alignment": "alignment scores",
    "arm.gold": "gold", "arm.bm25": "bm25, gold", "arm.alignment": "alignment, gold",
}  # fmt: skip
"""What the attention cell calls each row."""


def cells_of(study: Study, row: str) -> list[Cell | None]:
    """The cells of a row, a seed each where it has seeds."""
    if row.startswith("arm."):
        return [study.cell(f"{row}.{seed}") for seed in range(study.settings.seeds)]
    if row in TEACHERS:
        return [study.cell(f"{row}.{study.settings.query}")]
    return [study.cell(row)]


def print_table1(study: Study) -> None:
    """Every row of the paper's table 1, ours beside it, in Markdown."""
    settings = study.settings
    print(f"query: {settings.query}; {settings.questions} training questions; percent\n")
    print("| row | P | R | F1 | seeds | F1m | F1a | EM0 | matched | paper: P R F1 | F1m F1a EM0 |")
    print("|---|" + "---|" * 10)
    for row, paper in PAPER.items():
        print(f"| {paper.name} | {' | '.join(_row(study, row))} | {_paper(paper)} |")
    _print_queries(study)
    _print_checks(study)
    _print_tests(study)
    _print_overlap(study)


def _row(study: Study, row: str) -> list[str]:
    done = [cell for cell in cells_of(study, row) if cell is not None]
    values = [[cell["measures"][name] for cell in done] for name in MEASURES]
    cells = [_mean(value) for value in values] if done else [_empty(study, row), "", ""]
    seeds = f"{len(done)}" if row.startswith("arm.") else ""
    answers = study.cell(f"answers.{row}")
    official = answers["measures"]["official"] if answers else None
    answered = [
        f"{100 * official[name]:.1f}" if official else "" for name in ("f1_m", "f1_a", "em0")
    ]
    shares = (study.cell("attention") or {}).get("shares", {})
    share = shares.get(SHARES.get(row, ""))
    matched = f"{100 * share['layers'][-1]:.1f}" if share else ""
    return [*cells, seeds, *answered, matched]


def _mean(values: Sequence[float]) -> str:
    """The mean in percent, with Student's interval where there are three seeds at least."""
    text = f"{100 * np.mean(values):.1f}"
    interval = t_interval(values) if len(values) > 2 else None
    return f"{text} ± {50 * (interval.high - interval.low):.1f}" if interval else text


def _paper(row: PaperRow) -> str:
    parts = [
        " ".join("–" if value is None else f"{value:.1f}" for value in values) if values else "–"
        for values in (row.evidence, row.answers)
    ]
    return " | ".join(parts)


def _empty(study: Study, row: str) -> str:
    """The hours of one processor that a cell would take."""
    hours = predicted_hours(study, row)
    return "" if hours is None else f"({hours:.1f} h)"


def predicted_hours(study: Study, row: str) -> float | None:
    """Hours of one processor for one seed of a row, by the cells that are done."""
    rates = [
        cell["processor_seconds"] / (cell["rows"] * epochs)
        for name, epochs in (("scores.bm25.0", SCORE_EPOCHS), ("scores.alignment.0", SCORE_EPOCHS),
                             ("arm.gold.0", GOLD_EPOCHS), ("arm.bm25.0", GOLD_EPOCHS))
        if (cell := study.cell(name)) is not None
    ]  # fmt: skip
    rows = [cell["rows"] for cell in map(study.cell, ("scores.bm25.0", "arm.gold.0")) if cell]
    if not rates or not rows or not row.startswith("arm."):
        return None
    first = 0 if row == "arm.gold" else SCORE_EPOCHS
    return float(max(rates)) * int(rows[0]) * (first + GOLD_EPOCHS) / 3600


def _print_queries(study: Study) -> None:
    print("\n| query | system | P | R | F1 | AutoROCC F1 | rule |\n|---|---|---|---|---|---|---|")
    for teacher in (*TEACHERS, "base"):
        for form in QUERY_FORMS:
            cell = study.cell(f"{teacher}.{form}")
            if cell is None:
                continue
            measures = cell["measures"]
            values = [measures[name] for name in (*MEASURES, "autorocc_f1")]
            shown = " | ".join(f"{100 * value:.1f}" for value in values)
            print(f"| {form} | {teacher} | {shown} | {cell['rule']} |")


def _print_checks(study: Study) -> None:
    print("\n| step 1 | tau with the teacher | same first | P@1 | teacher's P@1 |")
    print("|---|---|---|---|---|")
    names = ("tau", "same_first", "first_relevant", "teacher_first_relevant")
    cells = {
        f"{teacher}, seed {seed}": study.cell(f"scores.{teacher}.{seed}")
        for teacher in TEACHERS
        for seed in range(study.settings.seeds)
    }
    for label, cell in {"bm25, the paper's settings": study.cell("paper.bm25"), **cells}.items():
        if cell:
            values = " | ".join(f"{cell['check'][name]:.3f}" for name in names)
            print(f"| {label} | {values} |")


def _print_tests(study: Study) -> None:
    """Paired randomisation tests over questions against gold alone, seed by seed."""
    print("\n| against gold alone | seed | F1 | p |\n|---|---|---|---|")
    for arm in ARMS[1:]:
        for seed in range(study.settings.seeds):
            ours, gold = study.cell(f"arm.{arm}.{seed}"), study.cell(f"arm.gold.{seed}")
            if ours and gold:
                p = f1_of_means_test(_values(ours), _values(gold))
                difference = ours["measures"]["f1"] - gold["measures"]["f1"]
                print(f"| {arm}, then gold | {seed} | {100 * difference:+.1f} | {p:.4f} |")


def _values(cell: Cell) -> tuple[Any, Any]:
    return np.array(cell["precision"]), np.array(cell["recall"])


def overlap(ours: Cell, theirs: Cell) -> float:
    """Of the sentences that the others select rightly, the share that we select too."""
    shared = [
        place in places
        for places, others in zip(ours["right"], theirs["right"], strict=True)
        for place in others
    ]
    return float(np.mean(shared)) if shared else float("nan")


def _print_overlap(study: Study) -> None:
    """Section 4.2: how many of the right sentences of BM25 and alignment an arm selects too."""
    print("\n| of the right sentences of | selected by | ours | paper |\n|---|---|---|---|")
    paper = {("gold", "bm25"): 48.5, ("gold", "alignment"): 47.6}
    paper |= {
        (teacher, teacher): value for teacher, value in zip(TEACHERS, (55.6, 55.1), strict=True)
    }
    for (arm, teacher), figure in paper.items():
        ours, theirs = study.cell(f"arm.{arm}.0"), study.cell(f"{teacher}.{study.settings.query}")
        if ours and theirs:
            name = "gold" if arm == "gold" else f"{arm}, then gold"
            print(f"| {teacher} | {name} | {100 * overlap(ours, theirs):.1f} | {figure:.1f} |")


def print_figure1(study: Study) -> None:
    """The share of attention to matched words, a row a model and a column a layer."""
    cell = study.cell("attention")
    if cell is None:
        print("no attention was measured yet: python -m benchmarks.evidence table1 first")
        return
    shares = cell["shares"]
    layers = max(len(share["layers"]) for share in shares.values())
    print("| trained on | " + " | ".join(f"layer {n + 1}" for n in range(layers)) + " | pairs |")
    print("|---|" + "---|" * (layers + 1))
    for name, share in shares.items():
        values = " | ".join(f"{100 * value:.1f}" for value in share["layers"])
        print(f"| {name} | {values} | {share['pairs']} |")


def draw_figure1(study: Study) -> str:
    """The same as lines over layers."""
    cell = study.cell("attention")
    if cell is None:
        raise InputError("no attention was measured yet", hint="benchmarks.evidence table1 first")
    lines, layers = [], 0
    for name, share in cell["shares"].items():
        layers = max(layers, len(share["layers"]))
        points = [Point(n, value) for n, value in enumerate(share["layers"], 1)]
        lines.append(Line(name, points))
    panel = line_panel(
        lines, x_name="layer", y_name="share of attention to matched words", frame=WIDE,
        x_labels={float(n): str(n) for n in range(1, layers + 1)},
    )  # fmt: skip
    title = "Attention of the classification token to words that question and sentence share"
    return str(stacked_file(title, [panel], [line.name for line in lines]))
