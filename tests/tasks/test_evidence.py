"""Evidence selection: equations and rules by hand, leaks, bad input, the command line."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tamis.cli.app import run as tamis
from tamis.collection.readers import open_collection
from tamis.collection.runs import read_run
from tamis.errors import InputError, LineError
from tamis.tasks.evidence import (
    TEST_SPLITS,
    TUNE_SPLITS,
    open_selector,
    rank_sentences,
    select_evidence,
)
from tamis.tasks.evidence_data import (
    QUERY_FORMS,
    Answer,
    EvidenceData,
    Question,
    hold_out_paragraphs,
    read_evidence,
    sample_questions,
)
from tamis.tasks.evidence_measures import evidence_values, f1_of_means_test
from tamis.tasks.evidence_selection import Rule, tune_rule
from tamis.types import Pairs, Run, Scores
from tamis.types.pipeline import Scale

SENTENCES = {
    "p1": ["Ada sieves flour.", "Bob sleeps.", "The sieve of Ada is fine.", "It rains."],
    "p2": ["Nets catch fish.", "Carl mends the net of nylon.", "Dora sails."],
    "p3": ["A whisk beats cream.", "Emil holds the whisk.", "The cream is cold."],
}
QUESTIONS: list[tuple[str, str, str, list[tuple[str, bool]], list[int]]] = [
    ("q1", "Who sieves flour?", "p1", [("Ada", True), ("Bob", False)], [0, 2]),
    ("q2", "What is fine?", "p1", [("The sieve", True), ("Rain", False)], [2]),
    ("q3", "Who mends nets of nylon?", "p2", [("Carl", True), ("Dora", False)], [0, 1]),
    ("q4", "Who holds the whisk?", "p3", [("Emil", True), ("He", True), ("Ada", False)], [0, 1]),
]
SPLITS = {"train": ["q1", "q2"], "dev": ["q3"], "test": ["q4"]}


def write_data(folder: Path) -> Path:
    """The toy collection as a folder that users bring."""
    (folder / "qrels").mkdir(parents=True)
    sentences = [
        {"_id": f"{paragraph}.{n}", "text": text, "paragraph": paragraph, "position": n}
        for paragraph, texts in SENTENCES.items()
        for n, text in enumerate(texts)
    ]
    questions = [
        {"_id": name, "text": text, "paragraph": paragraph,
         "answers": [{"text": answer, "correct": correct} for answer, correct in answers]}
        for name, text, paragraph, answers, _ in QUESTIONS
    ]  # fmt: skip
    for name, rows in (("corpus", sentences), ("queries", questions)):
        lines = [json.dumps(row) + "\n" for row in rows]
        (folder / f"{name}.jsonl").write_text("".join(lines))
    for split, names in SPLITS.items():
        lines = ["query-id\tcorpus-id\tscore\n"] + [
            f"{name}\t{paragraph}.{n}\t1\n"
            for name, _, paragraph, _, used in QUESTIONS
            for n in used
            if name in names
        ]
        (folder / "qrels" / f"{split}.tsv").write_text("".join(lines))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_data(tmp_path / "toy")


@pytest.fixture
def data(folder: Path) -> EvidenceData:
    return read_evidence(folder)


class Recording:
    """Scores a text by its length and keeps the queries it was asked."""

    scale: Scale = "regression"

    def __init__(self) -> None:
        self.queries: list[str] = []

    def score(self, pairs: Pairs) -> Scores:
        self.queries += pairs.queries
        lengths = np.array([len(text) for text in pairs.texts], np.float32)
        return Scores(lengths[pairs.index[:, 1]], np.zeros(len(pairs), np.int32))


def test_sentences_stand_in_the_order_of_their_positions(folder: Path) -> None:
    lines = (folder / "corpus.jsonl").read_text().splitlines()
    (folder / "corpus.jsonl").write_text("\n".join(reversed(lines)) + "\n")
    read = read_evidence(folder)
    assert read.paragraphs["p2"] == ("p2.0", "p2.1", "p2.2")
    assert read.candidates([read.questions["q3"]])["q3"].ids == ["p2.0", "p2.1", "p2.2"]


def test_answers_and_judgements_are_read(data: EvidenceData) -> None:
    assert data.questions["q4"].answers[1] == Answer("He", True)
    assert data.relevant("test") == {"q4": {"p3.0", "p3.1"}}
    assert [question.id for question in data.questions_of("train")] == ["q1", "q2"]


@pytest.mark.parametrize("form", QUERY_FORMS)
def test_a_query_does_not_depend_on_which_answers_are_correct(form: Any) -> None:
    answers = ("Ada", "Bob", "Carl")
    asked = set()
    for correct in range(8):
        flags = [bool(correct >> n & 1) for n in range(3)]
        made = tuple(Answer(text, flag) for text, flag in zip(answers, flags, strict=True))
        asked.add(tuple(Question("q", "Who?", "p", made).query_texts(form)))
    assert len(asked) == 1
    (texts,) = asked
    assert all(text.startswith("Who?") for text in texts)
    assert ("Ada" in " ".join(texts)) == ("Bob" in " ".join(texts)) == (form != "question")


def test_the_scorer_is_asked_nothing_but_the_queries(data: EvidenceData) -> None:
    scorer = Recording()
    rank_sentences(data, data.questions_of("test"), scorer, "question+answer")
    assert scorer.queries == [f"Who holds the whisk? {name}" for name in ("Emil", "He", "Ada")]


def test_a_sentence_keeps_its_best_score_over_answers(data: EvidenceData) -> None:
    class ByAnswer(Recording):
        def score(self, pairs: Pairs) -> Scores:
            values = [(ord(pairs.queries[q][-1]) + t) % 7 for q, t in pairs.index.tolist()]
            return Scores(np.array(values, np.float32), np.zeros(len(values), np.int32))

    question = data.questions["q4"]
    texts = question.query_texts("question+answer")
    best, _ = rank_sentences(data, [question], ByAnswer(), "question+answer", "max")
    mean, _ = rank_sentences(data, [question], ByAnswer(), "question+answer", "mean")
    for name in data.paragraphs["p3"]:
        number = best.docs.number(name)
        scores = [(ord(text[-1]) + number) % 7 for text in texts]
        assert dict(best["q4"])[name] == max(scores)
        assert dict(mean["q4"])[name] == pytest.approx(sum(scores) / 3)


def test_rules_by_hand() -> None:
    run = Run.from_dict({"q1": {"a": 8.0, "b": 5.0, "c": 3.0}, "q2": {"d": 2.0, "e": 1.0}})
    # equation 3: (5 - 3) / (8 - 3) * 5 = 2 for b, and 5, 0 at the ends
    assert Rule("scaled", 2.0).select(run).to_dict() == {
        "q1": {"a": 8.0, "b": 5.0}, "q2": {"d": 2.0}
    }  # fmt: skip
    assert Rule("scaled", 2.01).select(run).to_dict()["q1"] == {"a": 8.0}
    assert Rule("score", 4.0).select(run).to_dict() == {
        "q1": {"a": 8.0, "b": 5.0}, "q2": {"d": 2.0}
    }, "the best sentence is selected even where it does not pass"  # fmt: skip
    assert Rule("top", 2).select(run).to_dict()["q2"] == {"d": 2.0, "e": 1.0}


def test_the_tuned_rule_is_the_best_there_is() -> None:
    run = Run.from_dict(
        {"q1": {"a": 9.0, "b": 8.5, "c": 1.0}, "q2": {"d": 9.0, "e": 4.0, "f": 1.0}}
    )
    relevant = {"q1": {"a", "b"}, "q2": {"d"}}
    tuned = tune_rule(run, relevant)
    assert tuned.f1 == 1.0 and tuned.rule.kind == "scaled"
    assert 1.875 < tuned.rule.value <= 4.6875  # e is (4 - 1) / 8 * 5, b is (8.5 - 1) / 8 * 5
    every = tune_rule(run, {"q1": {"a", "b", "c"}, "q2": {"d", "e", "f"}})
    assert every.rule == Rule("top", 3)


def test_a_question_without_a_relevant_sentence_is_refused_where_a_rule_is_tuned(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run.from_dict({"q1": {"a": 2.0, "b": 1.0}, "q2": {"c": 2.0, "d": 1.0}})
    with pytest.raises(InputError, match="question 'q2' has no relevant sentence") as raised:
        tune_rule(run, {"q1": {"a"}, "q2": set()})
    assert raised.value.hint
    judgements = folder / "qrels/train.tsv"
    judgements.write_text(judgements.read_text().replace("q2\tp1.2\t1", "q2\tp1.2\t0"))
    assert tamis(["task", "evidence", str(folder), "--tune-split", "train"]) == 1
    assert "question 'q2' has no relevant sentence" in capsys.readouterr().err


def test_autorocc_differs_from_the_f1_of_means() -> None:
    selected = {"q1": {"a", "b", "c", "d"}, "q2": {"x", "y"}}
    relevant = {"q1": {"a", "e"}, "q2": {"z"}}
    measures = evidence_values(selected, relevant, {"q1": 3, "q2": 1}).summary()
    assert (measures.precision, measures.recall) == ((1 / 4 + 0) / 2, (1 / 2 + 0) / 2)
    assert measures.f1 == pytest.approx(2 * 0.125 * 0.25 / 0.375)
    # q1 counts three times, q2 once; P + R < 1, so it divides by 1
    precision, recall = 3 / 4 * 1 / 4, 3 / 4 * 1 / 2
    assert measures.autorocc_precision == pytest.approx(precision)
    assert measures.autorocc_f1 == pytest.approx(2 * precision * recall)
    assert measures.autorocc_f1 != pytest.approx(2 * precision * recall / (precision + recall))


def test_a_question_without_a_correct_answer_counts_for_us_alone() -> None:
    selected, relevant = {"q1": {"a"}, "q2": {"y"}}, {"q1": {"a"}, "q2": {"z"}}
    measures = evidence_values(selected, relevant, {"q1": 1, "q2": 0}).summary()
    assert (measures.f1, measures.autorocc_f1) == (0.5, 1.0)


def test_nothing_selected_has_no_precision() -> None:
    values = evidence_values({}, {"q1": {"a"}})
    assert values.precision.tolist() == [0.0] and values.summary().f1 == 0.0


def test_the_randomisation_test_by_hand() -> None:
    first, second = np.array([1.0, 1.0]), np.array([0.0, 0.0])
    # four ways to exchange: F1 of (1, 0), (.5, .5) twice, (0, 1); as extreme: two of four
    p = f1_of_means_test((first, first), (second, second), samples=20_000)
    assert p == pytest.approx(0.5, abs=0.02)
    clear = np.ones(12)
    assert f1_of_means_test((clear, clear), (clear * 0, clear * 0)) < 0.002


def test_paragraphs_stay_whole_when_some_are_held_out(data: EvidenceData) -> None:
    held = hold_out_paragraphs(data, "train", 0.5, "validation")
    assert [question.id for question in held.questions_of("validation")] == ["q1", "q2"]
    with pytest.raises(InputError, match="no judgements of a split 'more'"):
        data.questions_of("more")


def test_a_sample_of_questions_is_seeded(data: EvidenceData) -> None:
    drawn = [sample_questions(data, "train", 1, seed).questions_of("train") for seed in (3, 3)]
    assert drawn[0] == drawn[1] and len(drawn[0]) == 1
    assert sample_questions(data, "train", 9) is data


def test_a_rule_is_not_tested_where_it_was_tuned(data: EvidenceData) -> None:
    with pytest.raises(InputError, match="cannot be tested"):
        select_evidence(data, Recording(), "question", split="dev", tune_split="dev")


def test_bm25_counts_the_sentences_of_all_splits(data: EvidenceData) -> None:
    with open_selector("bm25", data) as scorer:
        run, _ = rank_sentences(data, data.questions_of("test"), scorer)
    scores = dict(run["q4"])
    # "whisk" is in 2 of 10 sentences, "hold" in 1; p3.1 has both, 4 terms without "the"
    idf = {df: np.log(1 + (10 - df + 0.5) / (df + 0.5)) for df in (1, 2)}
    assert run["q4"].ids[0] == "p3.1"
    assert scores["p3.2"] == 0.0
    assert scores["p3.1"] / scores["p3.0"] > idf[1] / idf[2]
    with pytest.raises(InputError, match="needs word vectors"):
        open_selector("alignment:", data).__enter__()


def bad(folder: Path, file: str, line: int, change: dict[str, Any]) -> None:
    """Change one record of a file."""
    path = folder / file
    rows = [json.loads(text) for text in path.read_text().splitlines()]
    rows[line - 1] |= change
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize(
    ("file", "line", "change", "problem"),
    [
        ("corpus.jsonl", 3, {"paragraph": None}, "'p1.2' has no field 'paragraph'"),
        ("corpus.jsonl", 2, {"position": "last"}, "'p1.1' has the position 'last'"),
        ("queries.jsonl", 4, {"paragraph": "p9"}, "'q4' asks about paragraph 'p9'"),
        ("queries.jsonl", 1, {"answers": "Ada"}, "'q1' has answers that cannot be read"),
        ("queries.jsonl", 1, {"answers": '"Ada"'}, "'q1' has answers that cannot be read"),
        ("queries.jsonl", 3, {"answers": {"text": "Bob", "correct": True}}, "'q3' has answers"),
        ("queries.jsonl", 2, {"answers": [{"correct": True}]}, "'q2' has answers that"),
        ("queries.jsonl", 2, {"answers": [{"text": "a", "correct": 1}]}, "'q2' has answers that"),
    ],
)
def test_bad_records_are_named_with_file_and_line(
    folder: Path, file: str, line: int, change: dict[str, Any], problem: str
) -> None:
    bad(folder, file, line, change)
    with pytest.raises(LineError) as raised:
        read_evidence(folder)
    assert str(raised.value).startswith(f"{folder / file}:{line}: {problem}")
    assert raised.value.hint


def test_judgements_of_another_paragraph_are_refused(folder: Path) -> None:
    with (folder / "qrels/test.tsv").open("a") as file:
        file.write("q4\tp1.0\t1\n")
    with pytest.raises(InputError, match=r"'p1\.0' for question 'q4', which is not of its"):
        read_evidence(folder)


def test_a_question_without_answers_is_asked_alone(folder: Path) -> None:
    bad(folder, "queries.jsonl", 4, {"answers": []})
    data = read_evidence(folder)
    assert data.questions["q4"].query_texts("question") == ["Who holds the whisk?"]
    with pytest.raises(InputError, match="'q4' has no answers"):
        data.questions["q4"].query_texts("question+answers")


def test_the_command_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = folder.parent / "out"
    arguments = ["task", "evidence", str(folder), "--model", "bm25", "--json"]
    assert tamis([*arguments, "--tune-split", "train", "-o", str(out)]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["split"], printed["tune_split"]) == ("test", "train")
    (system,) = printed["systems"]
    ranked, selected = read_run(out / "ranking.trec"), read_run(out / "selected.trec")
    assert len(ranked["q4"]) == 3 and selected["q4"].ids[0] == "p3.1"
    hits = len({"p3.0", "p3.1"} & {*selected["q4"].ids})
    assert system["precision"] == hits / len(selected["q4"]) and system["recall"] == hits / 2
    assert json.loads((out / "evidence.json").read_text())["systems"] == [system]
    assert tamis([*arguments, "-o", str(out)]) == 1
    assert "exists already" in capsys.readouterr().err


def test_the_command_line_prints_a_row_a_query(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forms = [option for form in QUERY_FORMS for option in ("--query", form)]
    assert tamis(["task", "evidence", str(folder), *forms]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[3:]] == list(QUERY_FORMS)
    assert lines[0] == "toy, test: bm25"
    assert tamis(["task", "evidence", str(folder), *forms, "-o", "x"]) == 2
    assert tamis(["task", "evidence", str(folder), "--query", "correct answers"]) == 1
    assert "there is no query 'correct answers'" in capsys.readouterr().err


def test_the_command_line_says_where_the_rules_were_tuned_and_how_well(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (folder / "qrels/train.tsv").open("a") as file:
        file.write("q2\tp1.1\t1\n")  # no rule selects this and the rest
    command = ["task", "evidence", str(folder), "--tune-split", "train"]
    assert tamis([*command, "--json"]) == 0
    (system,) = json.loads(capsys.readouterr().out)["systems"]
    assert tamis(command) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "1 question tested; rules tuned on 2 questions of train"
    assert lines[2].endswith("tuned F1") and lines[3].endswith(f"  {system['tuned_f1']:.4f}")
    assert system["tuned_f1"] != system["f1"]


def test_an_output_that_is_there_is_refused_before_the_work(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["task", "evidence", str(folder), "--model", "no-such-model", "-o", str(folder)]
    assert tamis(command) == 1
    assert "exists already" in capsys.readouterr().err
    assert tamis([*command, "--force"]) == 1
    assert "no-such-model" in capsys.readouterr().err


def test_the_help_names_the_splits_that_are_taken(capsys: pytest.CaptureFixture[str]) -> None:
    assert tamis(["task", "evidence", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert f"Default: {', '.join(TEST_SPLITS[:-1])} or {TEST_SPLITS[-1]}." in text
    assert f"Default: {', '.join(TUNE_SPLITS[:-1])} or {TUNE_SPLITS[-1]}." in text
    assert "BEIR folder" in text and "MultiRC" in text and "which are correct is never" in text


def test_multirc_itself() -> None:
    if "TAMIS_DATA" not in os.environ:
        pytest.skip("TAMIS_DATA is not set")
    collection = open_collection(Path(os.environ["TAMIS_DATA"]) / "multirc")
    read = read_evidence(collection)
    assert {split: len(qrels) for split, qrels in read.qrels.items()} == {
        "dev": 953, "train": 5131
    }  # fmt: skip
    assert len(read.paragraphs) == 83 + 456 and len(read.sentences) == 1182 + 6574
    question = read.questions["Fiction-stories-masc-A_Wasted_Day-11.txt==0"]
    assert question.text == "What did the judge tell Mr. Thorndike about the law?"
    assert len(question.answers) == 7 and sum(a.correct is True for a in question.answers) == 5
