"""`tamis import-model`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from tamis.cli.common import say, show_facts, show_json
from tamis.cli.options import Force, Json, with_options
from tamis.errors import InputError

LANGUAGE_MODEL_PANEL = "Language models"
KINDS = ("cross-encoder", "bi-encoder", "target-words")
QUESTIONS = {
    "kind": (f"what kind of scorer is it ({', '.join(KINDS)})", f"--kind {'|'.join(KINDS)}"),
    "pooling": (
        "how are its token embeddings pooled (mean, cls)",
        "--pooling mean, or --pooling cls",
    ),
    "words": (
        "which two words mean relevant and not relevant",
        "--target-words true false, or two others that are one token each",
    ),
}


@with_options
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
        typer.Option(help="Kind of model. Default: detected from its config files."),
    ] = None,
    target_words: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="WORD WORD",
            help="Words for relevant and not relevant; #123 is a token id.",
            rich_help_panel=LANGUAGE_MODEL_PANEL,
        ),
    ] = None,
    template: Annotated[
        str | None,
        typer.Option(
            help="Prompt, with {query} and {document}.", rich_help_panel=LANGUAGE_MODEL_PANEL
        ),
    ] = None,
    score: Annotated[
        Literal["words", "logit", "vocabulary"] | None,
        typer.Option(
            help="Probability over the two words (words), logit of the first, or probability over "
            "the vocabulary. Default: words.",
            rich_help_panel=LANGUAGE_MODEL_PANEL,
        ),
    ] = None,
    family: Annotated[
        Literal["sequence-to-sequence", "causal", "masked"] | None,
        typer.Option(
            help="Kind of language model. Default: from config.json.",
            rich_help_panel=LANGUAGE_MODEL_PANEL,
        ),
    ] = None,
    pooling: Annotated[
        str | None,
        typer.Option(
            metavar="MODE",
            help="Bi-encoder: how token embeddings are pooled: mean, cls, max, lasttoken, "
            "weightedmean, mean_sqrt_len_tokens, or several such as cls+mean.",
        ),
    ] = None,
    query_prompt: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Bi-encoder: what stands before every query."),
    ] = None,
    document_prompt: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Bi-encoder: what stands before every document."),
    ] = None,
    scale: Annotated[
        Literal["probability", "logit", "regression"] | None,
        typer.Option(help="Cross-encoder: what its output is."),
    ] = None,
    output_label: Annotated[
        str | None,
        typer.Option(
            metavar="LABEL",
            help="Cross-encoder with several outputs: the label, or the number, of the one that "
            "says relevant.",
        ),
    ] = None,
    max_length: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Truncate texts to so many tokens.")
    ] = None,
    json: Json = False,
    force: Force = False,
) -> None:
    """Copy a Hugging Face model, and record how it scores.

    Example: tamis import-model my-t5 -o my-reranker --target-words true false
    """
    from tamis.models import describe_model, find_base
    from tamis.models import import_model as import_folder
    from tamis.models.adapters import with_base

    answers: dict[str, Any] = {"kind": kind, "pooling": pooling, "words": target_words}
    options: dict[str, Any] = {
        "template": template,
        "score": score,
        "family": family,
        "scale": scale,
        "query_prompt": query_prompt,
        "document_prompt": document_prompt,
        "output": _output(output_label),
    }
    with with_base(find_base(folder)) as path:
        answers = _ask_missing(path, answers)
        _check_kind(path, {**answers, **options})
        if answers["words"] is not None:
            answers["words"] = [_word(word) for word in answers["words"]]
        manifest = import_folder(
            path, output, **answers, **options, max_length=max_length, force=force
        )
    facts = dict(describe_model(manifest))
    if json:
        show_json("import-model", facts)
    else:
        show_facts(facts)


def _ask_missing(folder: Path, answers: dict[str, Any]) -> dict[str, Any]:
    """The answers, completed by asking for what the folder does not say."""
    from tamis.backends.pooling import is_pooling
    from tamis.models.import_questions import missing_information

    while (missing := missing_information(folder, **answers)) is not None:
        question, option = QUESTIONS[missing]
        if not sys.stdin.isatty():
            raise InputError(f"{folder} does not say: {question}", hint=option)
        say(f"{folder} does not say: {question}?")
        answer = typer.prompt(missing, err=True).split()
        if missing == "words":
            answers = {**answers, "words": answer}
        elif missing == "kind" and answer and answer[0] in KINDS:
            answers = {**answers, "kind": answer[0]}
        elif missing == "pooling" and answer and is_pooling(answer[0]):
            answers = {**answers, "pooling": answer[0]}
    return answers


KIND_OF_OPTION = {
    "words": "target-words",
    "template": "target-words",
    "score": "target-words",
    "family": "target-words",
    "pooling": "bi-encoder",
    "query_prompt": "bi-encoder",
    "document_prompt": "bi-encoder",
    "scale": "cross-encoder",
    "output": "cross-encoder",
}


OPTION_OF = {"words": "target-words", "output": "output-label"}
"""What options are called that have another name in Python."""


def _check_kind(folder: Path, options: dict[str, Any]) -> None:
    """Refuse an option that means nothing for the kind of scorer that the folder is."""
    from tamis.models.model_kinds import kind_of, model_config

    kind = options["kind"] or kind_of(folder, model_config(folder))
    for name, option_kind in KIND_OF_OPTION.items():
        if options[name] is not None and kind != option_kind:
            option = OPTION_OF.get(name, name.replace("_", "-"))
            raise typer.BadParameter(f"--{option} is for {option_kind}; {folder} is a {kind}")


def _output(label: str | None) -> str | int | None:
    """A label, or the number of an output.

    >>> _output("entailment"), _output("2")
    ('entailment', 2)
    """
    return int(label) if label and label.isdigit() else label


def _word(text: str) -> str | int:
    """A word, or an id written as #123.

    >>> _word("true"), _word("#1176")
    ('true', 1176)
    """
    return int(text[1:]) if text.startswith("#") and text[1:].isdigit() else text
