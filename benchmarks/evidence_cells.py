"""The cells of the evidence tables: what is trained and measured, in which order, kept on disk."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from tamis.durable import new_file
from tamis.errors import InputError
from tamis.explain.attention import attention_shares
from tamis.models.model import load_model
from tamis.tasks.answer_classifier import answer_examples, answer_inputs, score_answers
from tamis.tasks.evidence import (
    Evidence,
    open_selector,
    rank_sentences,
    select_evidence,
    sentences_by_question,
)
from tamis.tasks.evidence_data import (
    QUERY_FORMS,
    EvidenceData,
    hold_out_paragraphs,
    read_evidence,
    sample_questions,
)
from tamis.tasks.evidence_training import (
    check_against_teacher,
    gold_examples,
    teacher_examples,
    train_selector,
    training_inputs,
)
from tamis.training.trainable import open_trainable

Cell = dict[str, Any]
TEACHERS = ("bm25", "alignment")
ARMS = ("gold", *TEACHERS)
"""What is learnt before gold: nothing, or a teacher's scores."""
TRAIN, TUNE, TEST = "train", "validation", "dev"
SCORE_EPOCHS, GOLD_EPOCHS = 3, 4
"""Yadav, section 3.2."""
DIGITS = 6
MEASURED = Path(__file__).parent / "measured" / "evidence"
"""A file a cell: what the tables of the results are computed from."""


@dataclass(frozen=True)
class StudySettings:
    """What all arms share."""

    questions: int = 200
    """How many training questions are drawn, once, for all arms."""
    tune_questions: int = 150
    query: Any = "question"
    seeds: int = 3
    base: str = "minilm"
    scores_recipe: str = "infuse-scores-small"
    gold_recipe: str = "infuse-gold-small"
    paper_recipe: str = "infuse-scores"
    """Step 1 as the paper sets it: rows in steps of 256 at a rate that it does not name."""
    max_length: int = 128
    attention_pairs: int = 300
    answer_questions: int = 400
    """How many training questions the answer classifier learns from."""
    answer_recipe: str = "docrank-small"


class Study:
    """Cells by name, and the order in which they are made: baselines, then arms, seed by seed."""

    def __init__(
        self, settings: StudySettings, multirc: Path, models: Path, work: Path, threads: int
    ) -> None:
        self.settings, self.models, self.work, self.threads = settings, models, work, threads
        self._multirc = multirc

    @cached_property
    def all_data(self) -> EvidenceData:
        """MultiRC with a fifth of the training paragraphs held out."""
        return hold_out_paragraphs(read_evidence(self._multirc), TRAIN, 0.2, TUNE)

    @cached_property
    def data(self) -> EvidenceData:
        """The same with sampled training questions."""
        data = sample_questions(self.all_data, TRAIN, self.settings.questions)
        return sample_questions(data, TUNE, self.settings.tune_questions)

    @property
    def vectors(self) -> Path:
        """Word vectors of alignment."""
        return self.models / "glove50"

    def names(self) -> Iterator[tuple[str, Callable[[], Cell]]]:
        """The cells in their order, each with what makes it."""
        settings = self.settings
        for teacher in TEACHERS:
            for form in QUERY_FORMS:
                yield f"{teacher}.{form}", partial(self._baseline, teacher, form)
        for form in QUERY_FORMS:
            yield f"base.{form}", partial(self._base, form)
        yield "scores.bm25.0", partial(self._scores, "bm25", 0)
        for seed in range(settings.seeds):
            for arm in ARMS:
                if arm != "gold":
                    yield f"scores.{arm}.{seed}", partial(self._scores, arm, seed)
                yield f"arm.{arm}.{seed}", partial(self._arm, arm, seed)
            if not seed:
                yield "paper.bm25", partial(self._scores, "bm25", 0, "paper", settings.paper_recipe)
                yield "attention", self._attention
                for teacher in TEACHERS:
                    yield f"step1.{teacher}", partial(self._step1_test, teacher)
                yield "answers", self._answer_model
                for row, name in self.answered.items():
                    yield f"answers.{row}", partial(self._answers, name)

    @property
    def answered(self) -> dict[str, str]:
        """The rows whose evidence answers are classified by, and the cells that selected it."""
        arms = {f"arm.{arm}": f"arm.{arm}.0" for arm in ARMS}
        return arms | {teacher: f"{teacher}.{self.settings.query}" for teacher in TEACHERS}

    def cell(self, name: str) -> Cell | None:
        """A cell that is done."""
        path = self.work / f"{name}.json"
        return json.loads(path.read_text("utf-8")) if path.exists() else None

    def run(self, seconds: float) -> None:
        """Make cells that are not there until the time is over; what was begun is ended."""
        end = time.monotonic() + seconds
        self._settle()
        for name, make in self.names():
            if self.cell(name) is not None:
                continue
            if time.monotonic() >= end:
                return
            began, processor = time.monotonic(), time.process_time()
            cell = make()
            cell["seconds"] = time.monotonic() - began
            cell["processor_seconds"] = time.process_time() - processor
            with new_file(self.work / f"{name}.json", force=True) as path:
                path.write_text(json.dumps(cell), "utf-8")
            print(f"{name}: {cell['seconds']:,.0f} s", flush=True)

    def as_kept(self) -> Study:
        """The study whose cells the folder has, with their settings."""
        path = self.work / "settings.json"
        kept = json.loads(path.read_text("utf-8")) if path.exists() else asdict(self.settings)
        return Study(StudySettings(**kept), self._multirc, self.models, self.work, self.threads)

    def _settle(self) -> None:
        """Keep the settings of the folder's cells; cells of other settings are refused."""
        self.work.mkdir(parents=True, exist_ok=True)
        path, settings = self.work / "settings.json", asdict(self.settings)
        if path.exists() and (kept := json.loads(path.read_text("utf-8"))) != settings:
            names = [name for name, value in settings.items() if kept.get(name) != value]
            raise InputError(
                f"the cells in {self.work} have other settings: {', '.join(names)}",
                hint="name another folder with --work",
            )
        with new_file(path, force=True) as new:
            new.write_text(json.dumps(settings, indent=1) + "\n", "utf-8")

    def model_folder(self, name: str) -> Path:
        """Where a trained model lies."""
        return self.work / "models" / name

    def _teacher_name(self, teacher: str) -> str:
        return f"alignment:{self.vectors}" if teacher == "alignment" else teacher

    def _baseline(self, teacher: str, form: Any) -> Cell:
        with open_selector(self._teacher_name(teacher), self.data) as scorer:
            return self._select(scorer, form)

    def _base(self, form: Any) -> Cell:
        """The base as it is, which ranks by the cosine of two embeddings."""
        scorer = load_model(self.models / self.settings.base, threads=self.threads).scorer
        return self._select(scorer, form)

    def _train(self, name: str, examples: Any, base: Path, recipe: str, **settings: Any) -> Path:
        out = self.model_folder(name)
        out.parent.mkdir(parents=True, exist_ok=True)
        inputs = training_inputs(self.data, TRAIN, self.settings.query, [TEST, TUNE])
        train_selector(
            examples, inputs, base=base, recipe=recipe, out=out, threads=self.threads, resume=True,
            max_length=self.settings.max_length, list_size="none", **settings,
        )  # fmt: skip
        return out

    def _scores(
        self, teacher: str, seed: int, name: str = "scores", recipe: str | None = None
    ) -> Cell:
        """Step 1, and whether it ranks like its teacher on held-out training paragraphs."""
        settings, questions = self.settings, self.data.questions_of(TRAIN)
        tuning = self.data.questions_of(TUNE)
        with open_selector(self._teacher_name(teacher), self.data) as scorer:
            examples = teacher_examples(self.data, questions, scorer, settings.query)
            theirs, _ = rank_sentences(self.data, tuning, scorer, settings.query)
        folder = self._train(
            f"{name}.{teacher}.{seed}", examples, self.models / settings.base,
            recipe or settings.scores_recipe, epochs=SCORE_EPOCHS, seed=seed,
        )  # fmt: skip
        ours, _ = self._rank(folder, tuning)
        check = check_against_teacher(ours, theirs, self.data.relevant(TUNE))
        return {"check": asdict(check), "rows": len(examples)}

    def _arm(self, arm: str, seed: int) -> Cell:
        """Gold labels, on the base or on what step 1 made."""
        settings, questions = self.settings, self.data.questions_of(TRAIN)
        examples = gold_examples(self.data, questions, TRAIN, settings.query)
        base = self.models / settings.base
        if arm != "gold":
            base = self.model_folder(f"scores.{arm}.{seed}")
        folder = self._train(
            f"arm.{arm}.{seed}", examples, base, settings.gold_recipe, epochs=GOLD_EPOCHS,
            seed=seed, keep="last",
        )  # fmt: skip
        return {**self._test(folder), "rows": len(examples)}

    def _step1_test(self, teacher: str) -> Cell:
        return self._test(self.model_folder(f"scores.{teacher}.0"))

    def _test(self, folder: Path) -> Cell:
        scorer = load_model(folder, threads=self.threads).scorer
        return self._select(scorer, self.settings.query)

    def _select(self, scorer: Any, form: Any) -> Cell:
        evidence = select_evidence(self.data, scorer, form, split=TEST, tune_split=TUNE)
        return evidence_cell(self.data, evidence)

    def _rank(self, folder: Path, questions: Any) -> Any:
        scorer = load_model(folder, threads=self.threads).scorer
        return rank_sentences(self.data, questions, scorer, self.settings.query)

    def _answer_model(self) -> Cell:
        """The classifier of answers, from judged evidence, and the threshold it has with that."""
        data = sample_questions(self.all_data, TRAIN, self.settings.answer_questions)
        questions = data.questions_of(TRAIN)
        examples = answer_examples(questions)
        out = self.model_folder("answers")
        out.parent.mkdir(parents=True, exist_ok=True)
        train_selector(
            examples, answer_inputs(data, questions, data.relevant(TRAIN), [TEST, TUNE]),
            base=self.models / self.settings.base, recipe=self.settings.answer_recipe, out=out,
            threads=self.threads, resume=True, keep="last",
        )  # fmt: skip
        scorer = load_model(out, threads=self.threads).scorer
        tuning = self.data.questions_of(TUNE)
        scores = score_answers(self.data, tuning, scorer, self.data.relevant(TUNE))
        return {"threshold": asdict(scores.threshold()), "rows": len(examples)}

    def _answers(self, name: str) -> Cell:
        """Answers of the test set by what a cell selected."""
        model, selection = self.cell("answers"), self.cell(name)
        if model is None or selection is None:
            raise InputError(f"answers by {name} need the cells 'answers' and {name!r}")
        scorer = load_model(self.model_folder("answers"), threads=self.threads).scorer
        selected = selected_sentences(self.data, selection)
        scores = score_answers(self.data, self.data.questions_of(TEST), scorer, selected)
        return {"measures": scores.measures(model["threshold"]["value"])}

    def _attention(self) -> Cell:
        """Shares of attention to matched words, on pairs of question and needed sentence."""
        pairs = self.attention_pairs()
        names = {"gold": "arm.gold.0"}
        names |= {f"{teacher} scores": f"scores.{teacher}.0" for teacher in TEACHERS}
        names |= {f"{teacher}, gold": f"arm.{teacher}.0" for teacher in TEACHERS}
        untrained = open_trainable(
            self.models / self.settings.base, outputs=1, max_length=self.settings.max_length
        ).scorer(threads=self.threads)
        shares = {"untrained": asdict(attention_shares(untrained, pairs))}
        for label, name in names.items():
            scorer = load_model(self.model_folder(name), threads=self.threads).scorer
            shares[label] = asdict(attention_shares(scorer, pairs))
        return {"shares": shares}

    def attention_pairs(self) -> list[tuple[str, str]]:
        """Questions of the test set, each with a sentence it needs; a seeded sample."""
        pairs = [
            (query, self.data.sentences[name].text)
            for question in self.data.questions_of(TEST)
            for query in question.query_texts(self.settings.query)
            for name in sorted(self.data.relevant(TEST)[question.id])
        ]
        random = np.random.default_rng(0)
        count = min(self.settings.attention_pairs, len(pairs))
        return [pairs[n] for n in sorted(random.choice(len(pairs), count, replace=False).tolist())]


def evidence_cell(data: EvidenceData, evidence: Evidence) -> Cell:
    """What is kept of a selection: measures, and of every question, in the order of the ids, its
    values, the places in the paragraph of what is selected, and those that are relevant.
    """
    selected, relevant = sentences_by_question(evidence.selected), data.relevant(TEST)
    questions = sorted(selected)
    order = {question: sentence_places(data, question) for question in questions}
    return {
        "measures": asdict(evidence.measures),
        "first_relevant": evidence.first_relevant,
        "rule": str(evidence.tuned.rule),
        "tuned_f1": evidence.tuned.f1,
        "precision": np.round(evidence.values.precision, DIGITS).tolist(),
        "recall": np.round(evidence.values.recall, DIGITS).tolist(),
        "selected": [sorted(order[q][name] for name in selected[q]) for q in questions],
        "right": [sorted(order[q][name] for name in selected[q] & relevant[q]) for q in questions],
        "truncated": evidence.truncated,
    }


def sentence_places(data: EvidenceData, question: str) -> dict[str, int]:
    """The place of every sentence in the paragraph of a question."""
    names = data.paragraphs[data.questions[question].paragraph]
    return {name: place for place, name in enumerate(names)}


def selected_sentences(data: EvidenceData, cell: Cell) -> dict[str, set[str]]:
    """The sentences that a cell selected, of each question."""
    questions = sorted(question.id for question in data.questions_of(TEST))
    paragraphs = [data.paragraphs[data.questions[question].paragraph] for question in questions]
    return {
        question: {names[place] for place in places}
        for question, names, places in zip(questions, paragraphs, cell["selected"], strict=True)
    }
