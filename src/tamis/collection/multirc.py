"""MultiRC's own JSON (Khashabi et al., NAACL 2018): sentences as documents, questions as queries.

A sentence has the fields `paragraph` and `position`, counted from 0; a question has `paragraph`
and `answers`. What its `sentences_used` names is judged 1. A folder has a split per file, called
by the file's name up to the first `_`: `train.json` or `train_456-fixedIds.json` is `train`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from tamis.collection._records import JsonText, as_json
from tamis.collection.base import Collection, Faults, Streamed
from tamis.collection.formats import Format
from tamis.collection.lines import open_bytes
from tamis.collection.samples import FileHead, FolderSample, read_head
from tamis.errors import InputError, LineError
from tamis.types import Document, Qrels, Queries, Query

SENTENCE = re.compile(r"<b>Sent \d+: </b>(.*?)<br>", re.DOTALL)
MARKS = (b'"sentences_used"', b"<b>Sent 1: </b>")
"""What the beginning of such a file holds."""
HINT = "each paragraph has an id, a text of <b>Sent 1: </b>…<br> and questions with answers"


def split_name(path: Path) -> str:
    """The split of a file.

    >>> split_name(Path("train_456-fixedIds.json")), split_name(Path("dev.json"))
    ('train', 'dev')
    """
    return path.name.split(".")[0].split("_")[0]


def sentences_of(text: str) -> list[str]:
    """The sentences of a paragraph, in order.

    >>> sentences_of("<b>Sent 1: </b>A sieve.<br><b>Sent 2: </b>It sorts.<br>")
    ['A sieve.', 'It sorts.']
    """
    return [sentence.strip() for sentence in SENTENCE.findall(text)]


def plain_id(text: str) -> str:
    """An id that a line of a TREC run can hold.

    >>> plain_id("Wiki_articles/wikiAlexander the Great-8.txt")
    'Wiki_articles/wikiAlexander_the_Great-8.txt'
    """
    return "_".join(text.split())


class MultiRC:
    """The paragraphs of some files, a split each."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._files = files

    def documents(self) -> Iterator[Document]:
        """Every sentence, paragraph by paragraph."""
        for paragraphs in self._paragraphs.values():
            for paragraph in paragraphs:
                for position, sentence in enumerate(paragraph["sentences"]):
                    fields = {"paragraph": paragraph["id"], "position": JsonText(str(position))}
                    yield Document(f"{paragraph['id']}#{position}", sentence, "", fields)

    def queries(self) -> Queries:
        """Every question, with its paragraph and its answers."""
        return Queries.of(
            Query(question["id"], question["text"], question["fields"])
            for paragraphs in self._paragraphs.values()
            for paragraph in paragraphs
            for question in paragraph["questions"]
        )

    def qrels(self) -> Mapping[str, Qrels]:
        """By split: the sentences that a question needs are judged 1, others are not judged."""
        return {
            split: Qrels.from_dict(
                {
                    question["id"]: {f"{paragraph['id']}#{used}": 1 for used in question["used"]}
                    for paragraph in paragraphs
                    for question in paragraph["questions"]
                }
            )
            for split, paragraphs in self._paragraphs.items()
        }

    @cached_property
    def _paragraphs(self) -> dict[str, list[dict[str, Any]]]:
        return {split: _read(path) for split, path in self._files.items()}


def _read(path: Path) -> list[dict[str, Any]]:
    """The paragraphs of a file, checked."""
    with open_bytes(path) as stream:
        raw = stream.read()
    try:
        data = json.loads(raw)["data"]
        return [_paragraph(path, entry) for entry in data]
    except json.JSONDecodeError as error:
        raise LineError(path, error.lineno, f"broken JSON: {error.msg}", hint=HINT) from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8: {error.reason}", hint=HINT) from None
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is no MultiRC file: {error}", hint=HINT) from None


def _paragraph(path: Path, entry: dict[str, Any]) -> dict[str, Any]:
    sentences = sentences_of(entry["paragraph"]["text"])
    name = plain_id(entry["id"])
    if not sentences:
        raise InputError(f"{path}: paragraph {entry['id']!r} has no sentences", hint=HINT)
    questions = [
        _question(path, name, len(sentences), question)
        for question in entry["paragraph"]["questions"]
    ]
    return {"id": name, "sentences": sentences, "questions": questions}


def _question(path: Path, paragraph: str, sentences: int, entry: dict[str, Any]) -> dict[str, Any]:
    name = f"{paragraph}=={entry['idx']}"
    beyond = [used for used in entry["sentences_used"] if not 0 <= used < sentences]
    if beyond:
        raise InputError(
            f"{path}: question {name!r} uses sentence {beyond[0]} of {sentences}",
            hint="sentences_used counts from 0, the text's Sent from 1",
        )
    answers = [
        {"text": answer["text"], "correct": bool(answer["isAnswer"])} for answer in entry["answers"]
    ]
    fields = {"paragraph": paragraph, "answers": JsonText(as_json(answers))}
    return {
        "id": name, "text": entry["question"], "used": entry["sentences_used"], "fields": fields
    }  # fmt: skip


def _has_marks(head: FileHead) -> bool:
    return head.first.lstrip().startswith("{") and all(mark in head.raw for mark in MARKS)


def _files_of(folder: Path) -> dict[str, Path]:
    files = sorted(folder.glob("*.json"))
    return {split_name(file): file for file in files if _has_marks(read_head(file))}


def _is_folder(folder: FolderSample) -> bool:
    return bool(_files_of(folder.path))


def open_multirc(path: Path, faults: Faults) -> Collection:
    """A file, or a folder of one file a split, as a collection."""
    data = MultiRC(_files_of(path) if path.is_dir() else {split_name(path): path})
    documents, queries, qrels = Streamed(data.documents), data.queries, data.qrels
    return Collection(path.resolve().name, "multirc", documents, queries, qrels, faults)


MULTIRC = Format(
    name="multirc",
    description="MultiRC's JSON: a file, or a folder of one a split",
    holds=("collection",),
    detect=_has_marks,
    detect_folder=_is_folder,
    open_collection=open_multirc,
)
