"""`tamis import-model`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from tamis.cli.common import Force, Json, say, show_facts, show_json
from tamis.errors import InputError

KINDS = ("cross-encoder", "bi-encoder", "target-words")
QUESTIONS = {
    "kind": (f"what kind of scorer is it ({', '.join(KINDS)})", f"--kind {'|'.join(KINDS)}"),
    "pooling": ("how are its token vectors pooled (mean, cls)", "--pooling mean, or --pooling cls"),
    "words": (
        "which two words mean relevant and not relevant",
        "--words true false, or two others that are one token each",
    ),
}
"""What may have to be asked for: the question, and the option that answers it."""


def import_model(
    folder: Annotated[
        str,
        typer.Argument(
            metavar="FOLDER", help="A Hugging Face folder, an installed model package or a hub id."
        ),
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FOLDER", help="The model folder to write.")
    ],
    kind: Annotated[
        Literal["cross-encoder", "bi-encoder", "target-words"] | None,
        typer.Option(help="What kind of scorer it is, if config.json does not say."),
    ] = None,
    words: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="WORD WORD",
            help="Of a language model: the words for relevant and not relevant; #123 is an id.",
        ),
    ] = None,
    template: Annotated[
        str | None,
        typer.Option(help="Of a language model: its prompt, with {query} and {document}."),
    ] = None,
    score: Annotated[
        Literal["words", "logit", "vocabulary"] | None,
        typer.Option(help="Of a language model: words is the method; the others compare."),
    ] = None,
    family: Annotated[
        Literal["sequence-to-sequence", "causal", "masked"] | None,
        typer.Option(help="Of a language model: which kind, if config.json does not say."),
    ] = None,
    pooling: Annotated[
        Literal["mean", "cls"] | None,
        typer.Option(help="Of a bi-encoder: how token vectors become one."),
    ] = None,
    scale: Annotated[
        Literal["probability", "logit", "regression"] | None,
        typer.Option(help="Of a cross-encoder: what its one output means."),
    ] = None,
    max_length: Annotated[
        int | None, typer.Option(min=1, help="Cut texts at so many tokens.")
    ] = None,
    json: Json = False,
    force: Force = False,
) -> None:
    """Take in a plain Hugging Face folder: copy it and write down how it scores.

    Example: tamis import-model my-t5 -o my-reranker --words true false
    """
    from tamis.models import describe_model, find_base
    from tamis.models import import_model as import_folder

    path = find_base(folder)
    given: dict[str, Any] = {"kind": kind, "pooling": pooling, "words": words}
    given = _completed(path, given)
    said: dict[str, Any] = {"template": template, "score": score, "family": family, "scale": scale}
    _check_kind(path, {**given, **said})
    if given["words"] is not None:
        given["words"] = [_word(word) for word in given["words"]]
    note = import_folder(
        path,
        output,
        **given,
        **said,
        max_length=max_length,
        force=force,
    )
    facts = dict(describe_model(note))
    if json:
        show_json(facts)
    else:
        show_facts(facts)


def _completed(folder: Path, given: dict[str, Any]) -> dict[str, Any]:
    """What was given and what is asked for, until nothing that is needed lacks."""
    from tamis.models.import_questions import missing_information

    while (lacking := missing_information(folder, **given)) is not None:
        question, option = QUESTIONS[lacking]
        if not sys.stdin.isatty():
            raise InputError(f"{folder} does not say: {question}", hint=option)
        say(f"{folder} does not say: {question}?")
        answer = typer.prompt(lacking, err=True).split()
        if lacking == "words":
            given = {**given, "words": answer}
        elif lacking == "kind" and answer and answer[0] in KINDS:
            given = {**given, "kind": answer[0]}
        elif lacking == "pooling" and answer and answer[0] in ("mean", "cls"):
            given = {**given, "pooling": answer[0]}
    return given


OPTION_OF = {
    "words": "target-words",
    "template": "target-words",
    "score": "target-words",
    "family": "target-words",
    "pooling": "bi-encoder",
    "scale": "cross-encoder",
}
"""Which kind each option is for."""


def _check_kind(folder: Path, given: dict[str, Any]) -> None:
    """Refuse an option that means nothing for the kind of scorer that the folder is."""
    from tamis.models.model_import import kind_of
    from tamis.scorers.weights import read_config

    kind = given["kind"] or kind_of(folder, read_config(folder))
    for name, meant in OPTION_OF.items():
        if given[name] is not None and kind != meant:
            raise typer.BadParameter(f"--{name} is for the kind {meant}; {folder} is a {kind}")


def _word(text: str) -> str | int:
    """A word, or an id written as #123.

    >>> _word("true"), _word("#1176")
    ('true', 1176)
    """
    return int(text[1:]) if text.startswith("#") and text[1:].isdigit() else text
