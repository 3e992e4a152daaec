import doctest
import json
import os
import subprocess
import sys
from collections import Counter
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from tamis.collection import pydocs
from tamis.collection.pydocs import PyDocs, open_pydocs
from tamis.collection.pydocs import documents as documents_module
from tamis.collection.pydocs import questions as questions_module
from tamis.collection.pydocs.questions import (
    Question,
    Questions,
    lexical_gap,
    load_log,
    load_questions,
)
from tamis.collection.pydocs.stdlib import StandardLibrary
from tamis.evaluation import evaluate
from tamis.search import Index

Documents = list[tuple[str, str, str]]
GONE = {
    "importlib.machinery.PathFinder.find_module",
    "topics.nonlocal.nonlocal_stmt-nonlocal-identifier-identifier-the-nonlocal",
    "topics.types.special-attributes-attribute-meaning-__doc__-the",
}
"""Answers that Python 3.11 has and 3.12 or 3.13 has not."""


@pytest.fixture(scope="module")
def read(collection: PyDocs) -> Documents:
    return list(collection.read)


@pytest.fixture(scope="module")
def collection() -> PyDocs:
    return open_pydocs()


@pytest.fixture(scope="module")
def asked(read: Documents) -> Questions:
    return load_questions(name for name, _, _ in read)


def run_reader(*options: str) -> list[str]:
    """Ids as a fresh interpreter reads them; whatever the reader itself prints spoils the JSON."""
    code = (
        "import json, sys\n"
        "from tamis.collection.pydocs.documents import documents\n"
        "ids = [name for name, _, _ in documents()]\n"
        "print(json.dumps([sorted(sys.modules), ids]))"
    )
    source = str(Path(documents_module.__file__).parents[3])
    done = subprocess.run(
        [sys.executable, *options, "-c", code],
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    modules, ids = json.loads(done.stdout)
    unwanted = "antigravity this idlelib turtle tkinter lib2to3 readline test"
    assert set(unwanted.split()).isdisjoint(modules)
    return list(ids)


def test_there_are_thousands_of_documents_in_one_order(read: Documents) -> None:
    ids = [name for name, _, _ in read]
    assert len(ids) > 5_000
    assert ids == sorted(set(ids))


def test_every_document_has_a_title_and_more_than_eight_words(read: Documents) -> None:
    assert all(title for _, title, _ in read)
    assert min(len(text.split()) for _, _, text in read) > 8


@pytest.mark.parametrize(
    "name",
    "zip str.split os.listdir os.path.join collections.deque.rotate collections.abc.Mapping "
    "itertools.pairwise pathlib.Path.glob random.sample socket.socket.recv heapq.nlargest "
    "datetime.datetime.strptime re.Match.groupdict types.GeneratorType.send asyncio.gather "
    "concurrent.futures.ThreadPoolExecutor decimal.Decimal.quantize sys.excepthook math "
    "topics.string-methods.str-split topics.specialnames.object-__hash__".split(),
)
def test_documents_have_the_names_people_use(name: str, read: Documents) -> None:
    assert name in {one for one, _, _ in read}


def test_no_document_has_a_private_name(read: Documents) -> None:
    names = [name for name, _, _ in read if not name.startswith("topics.")]
    assert not [name for name in names if name.startswith(("_", "posix.")) or "._" in name]


def test_a_text_stands_in_the_collection_once(read: Documents) -> None:
    topics = Counter(" ".join(t.lower().split()) for n, _, t in read if n.startswith("topics."))
    assert topics.most_common(1)[0][1] == 1


def test_the_signature_comes_first(read: Documents) -> None:
    texts = {name: text for name, _, text in read}
    assert texts["textwrap.dedent"].startswith("dedent(text)\n\nRemove any common leading")
    assert texts["str.split"].startswith("split(sep=None, maxsplit=-1)\n\nReturn a list")


def test_reading_imports_nothing_unwanted_and_prints_nothing(read: Documents) -> None:
    assert run_reader("-W", "error") == [name for name, _, _ in read]


def test_docstrings_survive_optimisation(read: Documents) -> None:
    assert len(run_reader("-OO")) > 0.99 * len(read)


@pytest.fixture
def toy(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "_hidden.py").write_text(
        "class Base:\n    def take(self, n):\n        'From the base.'\n"
        "def helper():\n    'A helper.'\n"
        "def _secret():\n    'Not for you.'\n"
    )
    (tmp_path / "toy.py").write_text(
        "'A toy.'\n"
        "from _hidden import *\n"
        "from _hidden import Base as _Base\n"
        "class Toy(_Base):\n    'A class.'\n    def play(self, *, loud=True):\n        'Play.'\n"
        "_toy = Toy()\n"
        "play = _toy.play\n"
        "if True:\n    def late(): 'Under an if.'\n"
    )
    entries = StandardLibrary(tmp_path).entries("toy")
    return {name: f"{entry.signature}|{entry.doc}" for name, entry in entries}


def test_a_module_has_its_own_names_and_those_of_hidden_modules(toy: dict[str, str]) -> None:
    assert toy == {
        "toy": "|A toy.",
        "toy.Toy": "|A class.",
        "toy.Toy.play": "play(*, loud=True)|Play.",
        "toy.Toy.take": "take(n)|From the base.",
        "toy.play": "play(*, loud=True)|Play.",
        "toy.late": "late()|Under an if.",
        "toy.helper": "helper()|A helper.",
        "toy.Base": "|",
        "toy.Base.take": "take(n)|From the base.",
    }


@pytest.mark.parametrize("name", ["no_such_module", "this", "xml.dom.minidom"])
def test_a_module_without_source_is_absent_and_not_imported(name: str, tmp_path: Path) -> None:
    before = set(sys.modules)
    assert [entry.doc for _, entry in StandardLibrary(tmp_path).entries(name)] == [""]
    assert set(sys.modules) == before


def test_every_question_can_be_answered_by_this_python(asked: Questions) -> None:
    assert asked.dropped == 0
    assert len(asked.answered) >= 130
    assert all(
        set(q.answers.values()) <= {1, 2} and 2 in q.answers.values() for q in asked.answered
    )


def records(name: str) -> list[dict[str, Any]]:
    lines = files(pydocs).joinpath(name).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="answers are known to exist up to 3.13")
def test_no_answer_is_missing_from_this_python(read: Documents) -> None:
    named = {name for record in records("questions.jsonl") for name in record["answers"]}
    missing = named - {name for name, _, _ in read}
    assert missing <= (GONE if sys.version_info >= (3, 12) else set())


def test_every_question_has_refused_documents_once_and_none_that_answers_it() -> None:
    answers = {record["id"]: record["answers"] for record in records("questions.jsonl")}
    refused = {record["id"]: record["refused"] for record in records("refused.jsonl")}
    assert list(refused) == list(answers)
    assert all(names == sorted(set(names)) for names in refused.values())
    assert all(names and not set(names) & set(answers[id]) for id, names in refused.items())


def test_documents_that_this_python_lacks_are_not_refused() -> None:
    first = records("refused.jsonl")[0]
    answer = next(iter(records("questions.jsonl")[0]["answers"]))
    there, gone = first["refused"][:2]
    found = {q.id: q for q in load_questions({answer, there}).answered}[first["id"]]
    assert found.refused == (there,)
    assert found.grades == {answer: 2, there: 0}
    assert gone not in found.grades


def test_refused_documents_are_judged_0_and_others_are_not_judged(collection: PyDocs) -> None:
    judged = collection.qrels["train"]["py-001"]
    assert (judged["zip"], judged["map"], judged["itertools.cycle"]) == (2, 1, 0)
    assert "wave" not in judged
    counted = Counter(grade for part in collection.qrels.values() for grade in part.grade.tolist())
    kept = collection.questions.answered
    assert counted[0] == sum(len(q.refused) for q in kept) > 5_500
    assert counted[1] + counted[2] == sum(len(q.answers) for q in kept) > 1_000


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="the documents of 3.11 were judged")
def test_what_bm25_ranks_first_is_judged(collection: PyDocs, tmp_path: Path) -> None:
    queries, qrels = collection.queries, collection.qrels["test"]
    asked = queries.select(qrels.queries.positions_in(queries.ids))
    run = (Index.build(collection.documents, tmp_path / "index").bm25() % 10)(asked)
    judged = evaluate(qrels, {"BM25": run}, ["Judged@10"]).mean("BM25", "Judged@10")
    assert judged > 0.95


def test_questions_are_distinct(asked: Questions) -> None:
    assert len({q.id for q in asked.answered}) == len(asked.answered)
    assert len({" ".join(q.text.lower().split()) for q in asked.answered}) == len(asked.answered)


def test_most_questions_avoid_the_words_of_their_answers(read: Documents, asked: Questions) -> None:
    assert lexical_gap(asked.answered, read) >= 0.5


def test_a_shared_word_closes_the_gap_whatever_its_form() -> None:
    texts = [("textwrap.fill", "textwrap.fill", "fill(text)\n\nFill a single paragraph.")]
    gaps = {"filling paragraphs": 0, "getTextWidth": 0, "fold lines": 1}
    for question, gap in gaps.items():
        assert lexical_gap([Question("1", question, "test", {"textwrap.fill": 2})], texts) == gap


def test_questions_are_split_sixty_fifteen_twentyfive(asked: Questions) -> None:
    shares = Counter(q.split for q in asked.answered)
    total = len(asked.answered)
    assert shares.keys() == {"train", "validation", "test"}
    assert shares["train"] / total == pytest.approx(0.60, abs=0.02)
    assert shares["validation"] / total == pytest.approx(0.15, abs=0.02)


def test_questions_without_a_squarely_right_answer_are_dropped_and_counted() -> None:
    written = records("questions.jsonl")
    question = next(one for one in written if 1 in one["answers"].values())
    for name, grade in question["answers"].items():
        found = load_questions({name})
        assert (question["id"] in {q.id for q in found.answered}) == (grade == 2)
        assert all(q.answers == {name: 2} for q in found.answered)
        assert len(found.answered) + found.dropped == len(written)


def test_logged_queries_are_distinct_and_are_not_the_questions(asked: Questions) -> None:
    names = [p.name for p in files(pydocs).iterdir() if p.name.startswith("log") and "." in p.name]
    assert names
    for name in names:
        log = load_log(name)
        assert len(log) >= 250
        assert len({query.lower() for query in log}) == len(log)
        assert all(log)
        assert not set(log) & {q.text for q in asked.answered}


@pytest.mark.parametrize("module", [documents_module, questions_module])
def test_examples_in_docstrings_run(module: object) -> None:
    ran = doctest.testmod(module)  # type: ignore[arg-type]
    assert ran.attempted > 0
    assert ran.failed == 0
