"""`tamis task choice` and `tamis task choice-train`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tamis.cli.common import say, say_faults, show, show_facts, show_json
from tamis.cli.options import (
    ADVANCED_PANEL,
    OUTPUT_PANEL,
    DeviceOptions,
    Force,
    GradientCheckpointing,
    Json,
    ReadOptions,
    Seed,
    Threads,
    TimeLimit,
    TrainingDevice,
    with_options,
)
from tamis.cli.rerank_inputs import check_output, open_documents
from tamis.cli.train import settings_of, training_facts
from tamis.terminal import plain_table

if TYPE_CHECKING:
    from tamis.labels.examples import Examples
    from tamis.search import Index
    from tamis.tasks.choice import ChoiceResult
    from tamis.tasks.choice_questions import Question

DATA = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="The questions: a JSON lines file, or a folder with a file a split.",
    ),
]
FACTS = Annotated[
    str,
    typer.Option(
        "-c", "--collection", metavar="FACTS", help="The facts: a collection or an index."
    ),
]
DEFAULT_SPLIT = "dev"
"""What is answered unless another split is named, and so is not learnt from unless it is named."""
DEPTH = Annotated[
    int, typer.Option("--depth", metavar="K", min=1, help="Facts per choice: BM25's first K.")
]


@with_options
def choice(
    data: DATA,
    collection: FACTS,
    model: Annotated[
        str,
        typer.Option(
            "--model",
            help="bm25, alignment:WORD_VECTORS, or a model: a folder, an installed model package "
            "or a hub id.",
        ),
    ],
    read: ReadOptions,
    where: DeviceOptions,
    split: Annotated[
        str, typer.Option("--split", metavar="NAME", help="The split of a folder to answer.")
    ] = DEFAULT_SPLIT,
    depth: DEPTH = 3,
    evidence: Annotated[
        int | None,
        typer.Option(
            "--evidence",
            metavar="N",
            min=1,
            help="Also rank BM25's first N facts for question and right answer, and measure the "
            "ranking against the gold explanations.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Write the scores of every choice to a JSON lines file.",
            rich_help_panel=OUTPUT_PANEL,
        ),
    ] = None,
    threads: Threads = None,
    json: Json = False,
    force: Force = False,
) -> None:
    """Answer multiple-choice questions by what the facts of each choice score.

    Example: tamis task choice arc/ -c facts.jsonl --model bm25 --split dev
    """
    from tamis.tasks.choice import measure_choice, open_model

    if output is not None:
        check_output(str(output), force)
    questions = _read_questions(data, split, read)
    with _open_index(collection, read) as index:
        ranker = open_model(model, index, threads=threads, **where.of(model))
        result = measure_choice(
            questions, index, ranker, depth, evidence_depth=evidence, threads=threads
        )
    if output is not None:
        from tamis.tasks.choice_predictions import write_predictions

        write_predictions(result.answered, output, force=force)
    if evidence and result.evidence is None:
        say("note: no question has an explanation: there is no evidence to measure")
    if json:
        show_json("task_choice", result.to_json())
        return
    _show(result)


@with_options
def choice_train(
    data: DATA,
    collection: FACTS,
    base: Annotated[
        str,
        typer.Option(
            "--base",
            metavar="MODEL",
            help="The base model: a folder, an installed package or a hub id.",
        ),
    ],
    labels: Annotated[
        list[str],
        typer.Option(
            "--labels",
            metavar="NAME",
            help="What is learnt: bm25, alignment:WORD_VECTORS, or gold. Repeat it to learn scores "
            "first and then gold.",
        ),
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FOLDER", help="The model folder to write.")
    ],
    read: ReadOptions,
    device: TrainingDevice,
    split: Annotated[
        str, typer.Option("--split", metavar="NAME", help="The split of a folder to learn from.")
    ] = "train",
    depth: DEPTH = 3,
    sample: Annotated[
        int | None,
        typer.Option(
            "--sample", metavar="N", min=1, help="Learn from a random sample of so many questions."
        ),
    ] = None,
    max_time: TimeLimit = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The training recipe. Default: infuse-scores, infuse-gold, or infuse for both.",
            rich_help_panel=ADVANCED_PANEL,
        ),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Change a setting of the recipe, such as learning_rate=1e-5. Repeatable.",
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue training from the last checkpoint.")
    ] = False,
    seed: Seed = 0,
    threads: Threads = None,
    gradient_checkpointing: GradientCheckpointing = False,
    json: Json = False,
    force: Force = False,
) -> None:
    """Train a model on the facts of every choice: on scores, on the right answers, or on both.

    Example: tamis task choice-train arc/ -c facts.jsonl --base all-MiniLM-L6-v2
    --labels alignment:glove/ --labels gold -o my-model
    """
    from tamis.tasks.choice_training import train_choice
    from tamis.training.precision import Placement

    settings = {**settings_of(setting or []), "seed": str(seed)}
    questions, held_out = _read_training_questions(data, split, read)
    with _open_index(collection, read) as index:
        example_sets = _label(questions, held_out, index, labels, depth, sample, seed, threads)
        trained = train_choice(
            example_sets, index, base=base, out=output, recipe=recipe, settings=settings,
            max_time=max_time, threads=threads, resume=resume, force=force,
            placement=Placement(device.device, device.dtype, gradient_checkpointing),
        )  # fmt: skip
    facts = {"questions": example_sets[0].facts["questions"], **training_facts(trained)}
    show_json("task_choice_train", facts) if json else show_facts(facts)


def _label(
    questions: Sequence[Question],
    held_out: Sequence[Question],
    index: Index,
    labels: Sequence[str],
    depth: int,
    sample: int | None,
    seed: int,
    threads: int | None,
) -> list[Examples]:
    from tamis.tasks.choice import open_model
    from tamis.tasks.choice_training import GOLD, draw_questions, label_choices, without_test

    _check_labels(labels)
    drawn = draw_questions(without_test(questions, held_out), sample, seed)
    scorers = {name: open_model(name, index, threads=threads) for name in labels if name != GOLD}
    return label_choices(drawn, index, labels, scorers, depth, test=held_out, threads=threads)


def _check_labels(labels: Sequence[str]) -> None:
    from tamis.tasks.choice_training import GOLD

    scores = [name for name in labels if name != GOLD]
    if len(scores) > 1 or len(labels) != len(set(labels)):
        raise typer.BadParameter("--labels is one kind of score, gold, or a kind of score and gold")


def _read_training_questions(
    data: str, split: str, read: ReadOptions
) -> tuple[list[Question], list[Question]]:
    """The questions to learn from, and those of the test splits and of dev beside them."""
    from tamis.errors import InputError
    from tamis.splits import is_test
    from tamis.tasks.choice_questions import question_files

    files = question_files(data)
    learnt = Path(data).stem if Path(data).is_file() else split
    if is_test(learnt):
        raise InputError(
            f"{learnt} is a test split, which is not learnt from", hint="learn from another split"
        )
    questions = _read_questions(data, split, read)
    if not any(map(is_test, files)):
        say(f"note: {data} has no test split, so no test question is left out of the training")
    held_out = [
        _read_questions(str(file), name, read)
        for name, file in files.items()
        if is_test(name) or (name == DEFAULT_SPLIT and name != learnt)
    ]
    return questions, [question for part in held_out for question in part]


def _read_questions(data: str, split: str, read: ReadOptions) -> list[Question]:
    from tamis.collection.base import Faults
    from tamis.tasks.choice_questions import read_split

    faults = Faults(skip=read.skips_bad_lines)
    questions = read_split(data, split, faults)
    say_faults(faults)
    return questions


@contextmanager
def _open_index(collection: str, read: ReadOptions) -> Iterator[Index]:
    from tamis.tasks.choice import facts_index

    documents, _, faults = open_documents(collection, read)
    with facts_index(documents) as index:
        say_faults(faults)
        yield index


def _show(result: ChoiceResult) -> None:
    from tamis.collection.loss_notes import counted

    facts: dict[str, Any] = result.to_json()
    table = plain_table()
    for head in ("questions", "", "accuracy", "guessing"):
        table.add_column(head, justify="left" if head == "questions" else "right")
    for name, one in facts["accuracy"].items():
        table.add_row(name, f"{one['questions']:,}", f"{one['value']:.4f}", f"{one['chance']:.4f}")
    show(f"{result.model}, {result.facts_per_choice} facts per choice", table)
    if result.evidence is not None:
        show(
            f"evidence: AP {result.evidence.value:.4f} over "
            f"{counted(result.evidence.questions, 'question')}, of BM25's first "
            f"{result.evidence.depth} facts"
        )
    for name in ("questions_with_equal_best_choices", "choices_without_facts"):
        if facts[name]:
            say(f"note: {name.replace('_', ' ')}: {facts[name]:,}")
