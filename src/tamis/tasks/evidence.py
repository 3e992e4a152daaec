"""Evidence selection: each question's sentences ranked, some selected, the selection measured.

BM25 and alignment take their statistics from the sentences of all paragraphs of the data, those of
other splits included: what is ranked is what is indexed, as in any search engine, and a threshold
tuned on one split means the same on another. No question, answer or judgement is counted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np

from tamis.collection.runs import write_run
from tamis.durable import new_folder
from tamis.errors import InputError
from tamis.labels.weak import LUCENE_BM25
from tamis.models.model_lookup import ALIGNMENT, open_ranker
from tamis.scorers.lexical import Lexical
from tamis.search import Index
from tamis.tasks.evidence_data import EvidenceData, QueryForm, Question
from tamis.tasks.evidence_measures import EvidenceMeasures, EvidenceValues, evidence_values
from tamis.tasks.evidence_selection import Tuned, tune_rule
from tamis.types import Ids, Pairs, Queries, Query, Run, Scorer

BM25_NAME = "bm25"
Combine = Literal["max", "mean"]
"""How the scores of a sentence for a question with each of its answers become one."""
TEST_SPLITS = ("test", "dev", "validation")
TUNE_SPLITS = ("validation", "dev", "train")
"""Which split is tested and which is tuned on, the first there is, unless they are named."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """What a system selects for the questions of a split, and how good that is."""

    query: QueryForm
    tuned: Tuned
    run: Run
    """All sentences of each question's paragraph, best first."""
    selected: Run
    values: EvidenceValues
    first_is_relevant: tuple[bool, ...]
    """Of each question, in the order of their ids."""
    truncated: int
    """How many pairs were truncated to fit the model."""

    @property
    def measures(self) -> EvidenceMeasures:
        """Means over questions."""
        return self.values.summary()

    @property
    def first_relevant(self) -> float:
        """P@1: the share of questions whose first sentence is judged relevant."""
        return float(np.mean(self.first_is_relevant))


@contextmanager
def open_selector(
    model: str | Path, data: EvidenceData, *, threads: int | None = None, **run_on: Any
) -> Iterator[Scorer]:
    """The scorer of a name: `bm25`, `alignment:VECTORS`, or a model's name or folder."""
    documents = list(data.sentences.values())
    if str(model) == BM25_NAME:
        with TemporaryDirectory() as folder:
            yield Lexical(Index.build(documents, Path(folder) / "index"), LUCENE_BM25)
    elif str(model).startswith(ALIGNMENT):
        yield open_ranker(model, documents=documents).scorer
    else:
        yield open_ranker(model, threads=threads, **run_on).scorer


def rank_sentences(
    data: EvidenceData,
    questions: Sequence[Question],
    scorer: Scorer,
    query: QueryForm = "question",
    combine: Combine = "max",
) -> tuple[Run, int]:
    """The sentences of each question's paragraph, best first, and how many pairs were truncated.

    With `question+answer` a sentence is scored once for each answer and keeps the best score, or
    their mean; the question remains the unit.

    >>> from tamis.types import Document, Scores
    >>> class Length:
    ...     scale = "regression"
    ...     def score(self, pairs):
    ...         lengths = np.array([len(text) for text in pairs.texts], np.float32)
    ...         return Scores(lengths[pairs.index[:, 1]], np.zeros(len(pairs), np.int32))
    >>> sentences = {name: Document(name, "x" * n, "", {"paragraph": "p"}) for name, n in
    ...              (("a", 1), ("b", 3))}
    >>> question = Question("q", "Which is longer?", "p")
    >>> data = EvidenceData("toy", sentences, {"p": ("a", "b")}, {"q": question}, {})
    >>> list(rank_sentences(data, [question], Length())[0]["q"])
    [('b', 3.0), ('a', 1.0)]
    """
    ordered = sorted(questions, key=lambda question: question.id.encode())
    if not ordered:
        raise InputError("there are no questions to rank sentences for")
    texts: list[str] = []
    index: list[tuple[int, int]] = []
    row: list[int] = []
    ids = Ids.of(data.sentences)
    doc: list[int] = []
    sizes: list[int] = []
    for question in ordered:
        numbers = ids.numbers(list(data.paragraphs[question.paragraph])).tolist()
        for text in question.query_texts(query):
            index += [(len(texts), number) for number in numbers]
            row += range(len(doc), len(doc) + len(numbers))
            texts.append(text)
        doc += numbers
        sizes.append(len(numbers))
    pairs = Pairs(texts, [data.sentences[name].text for name in ids], np.array(index, np.int32))
    scores = scorer.score(pairs)
    score = combined(np.array(row), scores.values, len(doc), combine)
    queries = Queries.of(Query(question.id, question.text) for question in ordered)
    run = Run(queries, ids, np.cumsum([0, *sizes]), np.array(doc, np.int32), score)
    return run, int((scores.truncated_tokens > 0).sum())


def combined(row: Any, values: Any, rows: int, combine: Combine) -> Any:
    """One value a row of some values with the rows they belong to.

    >>> combined(np.array([0, 1, 0]), np.float32([1, 5, 3]), 2, "mean").tolist()
    [2.0, 5.0]
    """
    if combine == "mean":
        sums = np.bincount(row, weights=values, minlength=rows)
        return (sums / np.bincount(row, minlength=rows)).astype(np.float32)
    best = np.full(rows, -np.inf, np.float32)
    np.maximum.at(best, row, values)
    return best


def select_evidence(
    data: EvidenceData,
    scorer: Scorer,
    query: QueryForm,
    *,
    split: str,
    tune_split: str,
    combine: Combine = "max",
) -> Evidence:
    """Rank and select for the questions of a split, by a rule tuned on another split."""
    if split == tune_split:
        raise InputError(
            f"a rule tuned on {split!r} cannot be tested on it",
            hint="name another split to tune on",
        )
    tuning_run, _ = rank_sentences(data, data.questions_of(tune_split), scorer, query, combine)
    tuned = tune_rule(tuning_run, data.relevant(tune_split))
    questions = data.questions_of(split)
    run, truncated = rank_sentences(data, questions, scorer, query, combine)
    selected = tuned.rule.select(run)
    relevant = data.relevant(split)
    correct = {q.id: sum(answer.correct is True for answer in q.answers) for q in questions}
    values = evidence_values(sentences_by_question(selected), relevant, correct)
    first = tuple(run[question].ids[0] in relevant[question] for question in values.questions)
    return Evidence(query, tuned, run, selected, values, first, truncated)


def sentences_by_question(run: Run) -> dict[str, frozenset[str]]:
    """The documents of each query."""
    return {query: frozenset(run[query].ids) for query in run}


def choose_splits(
    data: EvidenceData, split: str | None = None, tune_split: str | None = None
) -> tuple[str, str]:
    """Which split is tested and which tuned on, where they are not named.

    >>> from tamis.types import Qrels
    >>> qrels = {name: Qrels.from_dict({}) for name in ("train", "dev")}
    >>> choose_splits(EvidenceData("toy", {}, {}, {}, qrels))
    ('dev', 'train')
    """
    tested = split or next((name for name in TEST_SPLITS if name in data.qrels), None)
    others = [name for name in TUNE_SPLITS if name in data.qrels and name != tested]
    if tested is None or not (tune_split or others):
        raise InputError(
            f"{data.name} has the splits {', '.join(data.qrels) or 'none'}",
            hint="name one to test and another to tune on: --split, --tune-split",
        )
    return tested, tune_split or others[0]


def evidence_record(evidence: Evidence) -> dict[str, Any]:
    """Plain JSON of a system: its rule and its measures."""
    rule, measures = evidence.tuned.rule, evidence.measures
    return {
        "query": evidence.query,
        "rule": {"kind": rule.kind, "value": rule.value},
        "tuned_f1": evidence.tuned.f1,
        "tuned_questions": evidence.tuned.questions,
        "questions": measures.questions,
        "selected": measures.selected,
        "precision": measures.precision,
        "recall": measures.recall,
        "f1": measures.f1,
        "first_relevant": evidence.first_relevant,
        "autorocc": {
            "precision": measures.autorocc_precision,
            "recall": measures.autorocc_recall,
            "f1": measures.autorocc_f1,
        },
        "truncated_pairs": evidence.truncated,
    }


def write_evidence(
    evidence: Evidence, record: dict[str, Any], folder: Path, *, force: bool = False
) -> None:
    """Write a folder: `ranking.trec`, `selected.trec` and `evidence.json`."""
    with new_folder(folder, force=force) as unfinished:
        write_run(evidence.run, unfinished / "ranking.trec")
        write_run(evidence.selected, unfinished / "selected.trec")
        (unfinished / "evidence.json").write_text(json.dumps(record, indent=2), "utf-8")
