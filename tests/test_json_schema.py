"""The JSON that verbs print is the one that docs/reference/json.md describes."""

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tamis.cli.app import run

PAGE = Path(__file__).parents[1] / "docs/reference/json.md"
EVERY_OBJECT = {"schema", "schema_version"}

QRELS = "q1 0 d1 1\nq1 0 d2 0\nq2 0 d2 2\nq3 0 d3 1\nq4 0 d4 1\n"
RUN = "q1 Q0 d1 1 9.5 a\nq1 Q0 d2 2 7 a\nq2 Q0 d2 1 5 a\nq2 Q0 d1 2 4 a\n"
OTHER_RUN = "q1 Q0 d2 1 9.5 a\nq1 Q0 d1 2 7 a\nq2 Q0 d2 1 5 a\n"
DOCS = [
    ("d1", "Drum sieve", "A drum sieve sorts grain. Its mesh is made of fine steel wire."),
    ("d2", "Fishing nets", "Nets catch fish in the sea. Their mesh is made of strong nylon."),
    ("d3", "Flour", "Flour passes the sieve; grain does not. It is stored in paper sacks."),
    ("d4", "Whisk", "A whisk beats air into cream. Its loops are made of steel wire."),
]
QUESTION = (
    '{"id": "q1", "question": "What sorts grain?", "choices": ["drum sieve", "nets"], '
    '"answer": "A", "explanation": ["d1"]}\n'
)
QUERIES = [
    ("q1", "sieve for grain"),
    ("q2", "nets for fish"),
    ("q3", "store flour in sacks"),
    ("q4", "beat cream with wire loops"),
]


def documented_keys(schema: str, part: str = "") -> tuple[set[str], set[str]]:
    """All keys that the page has for a schema (or a part of one), and those always there."""
    text = PAGE.read_text("utf-8")
    keys, required = set[str](), set[str]()
    for cells in rows_of(section(section(text, f"## `{schema}`"), f"### {part}" if part else "")):
        names = set(re.findall(r"`([^`]+)`", cells[0]))
        keys |= names
        required |= names if cells[2] == "yes" else set()
    return keys, required


def section(text: str, heading: str) -> str:
    """What stands below a heading; the text itself without one."""
    if not heading:
        return text
    marks = heading.split()[0]
    pattern = rf"^{re.escape(heading)}$(.*?)(?=^#{{2,{len(marks)}}} |\Z)"
    match = re.search(pattern, text, re.MULTILINE | re.DOTALL)
    assert match, f"{PAGE.name} has no {heading}"
    return match[1]


def rows_of(text: str) -> list[list[str]]:
    """The rows of tables with the columns key, type, always and meaning."""
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection, an index of it, two runs, judgements and a log of queries."""
    folder = tmp_path_factory.mktemp("json")
    (folder / "docs" / "qrels").mkdir(parents=True)
    documents = [{"_id": id, "title": title, "text": text} for id, title, text in DOCS]
    queries = [{"_id": id, "text": text} for id, text in QUERIES]
    for name, records in (("corpus", documents), ("queries", queries)):
        lines = "".join(json.dumps(record) + "\n" for record in records)
        (folder / "docs" / f"{name}.jsonl").write_text(lines)
    (folder / "docs/qrels/train.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\n")
    (folder / "qrels.txt").write_text(QRELS)
    (folder / "a.trec").write_text(RUN)
    (folder / "b.trec").write_text(OTHER_RUN)
    (folder / "questions.jsonl").write_text(QUESTION)
    (folder / "log.txt").write_text("drum sieve\nfish\n")
    write_evidence(folder / "evidence")
    (folder / "table.tsv").write_text("1\t7\tsieve\tSieves sort.\t1\n1\t9\tsieve\tDrums.\t0\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert run(["index", "docs", "-o", "index"]) == 0
        assert run(["label", "pseudo", "-c", "index", "--queries", "log.txt", "-o", "made"]) == 0
        assert run(["fit", "docs", "-o", "sieve", "--base", "none"]) == 0
    return folder


def write_evidence(folder: Path) -> None:
    """Two paragraphs of two sentences, each with a question."""
    (folder / "qrels").mkdir(parents=True)
    sentences = [
        {"_id": f"{paragraph}{n}", "text": text, "paragraph": paragraph}
        for paragraph, texts in (("a", ("A sieve.", "It rains.")), ("b", ("A net.", "A fish.")))
        for n, text in enumerate(texts)
    ]
    asked = [{"_id": name, "text": "A sieve or net?", "paragraph": name} for name in "ab"]
    for name, rows in (("corpus", sentences), ("queries", asked)):
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(lines)
    for split, name in (("train", "a"), ("test", "b")):
        text = f"query-id\tcorpus-id\tscore\n{name}\t{name}0\t1\n"
        (folder / "qrels" / f"{split}.tsv").write_text(text)


class Call(NamedTuple):
    """A verb with its arguments, and where the page describes what it prints."""

    arguments: str
    schema: str
    part: str = ""


CALLS = [
    Call("info docs", "tamis.info", "A collection"),
    Call("info docs --passages words:5", "tamis.info", "A collection"),
    Call("info table.tsv", "tamis.info", "A collection"),
    Call("info a.trec", "tamis.info", "A run"),
    Call("info qrels.txt", "tamis.info", "Judgements"),
    Call("info log.txt", "tamis.info", "Queries"),
    Call("info index", "tamis.info", "An index"),
    Call("info sieve", "tamis.info", "A sieve"),
    Call("info made", "tamis.examples"),
    Call("info made -c index --queries log.txt --show 1", "tamis.examples"),
    Call("evaluate qrels.txt A=a.trec B=b.trec --baseline A --agreement", "tamis.evaluate"),
    Call("search index grain", "tamis.search"),
    Call("explain losses a.trec b.trec --qrels qrels.txt -c docs", "tamis.losses"),
    Call("explain result index grain", "tamis.explanation"),
    Call("explain result sieve grain d1 d3", "tamis.explanation"),
    Call("tune index docs qrels.txt --no-save --folds 2", "tamis.tune"),
    Call("label pseudo -c index --queries log.txt -o labels --force --show 1", "tamis.label"),
    Call("label pseudo -c index --from-documents -o labels --force", "tamis.label"),
    Call("label gold -c docs --index index -o labels --force", "tamis.label"),
    Call("label weak -c docs --index index -o labels --force --no-cache", "tamis.label"),
    Call(
        "label transfer -c docs --index index --method doc-labelled -o labels --force "
        "--passages sentences:1:1",
        "tamis.label",
    ),
    Call(
        "rerank a.trec -c index --model lexical -o new.parquet --force --no-cache "
        "--queries docs/queries.jsonl --fusion-weight 0.5",
        "tamis.rerank",
    ),
    Call("task choice questions.jsonl -c docs --model bm25 --evidence 3", "tamis.task_choice"),
    Call("fit docs -o other.sieve --base none --dry-run", "tamis.plan"),
    Call("task evidence evidence", "tamis.evidence", "The report"),
]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.arguments)
def test_every_key_is_documented_and_every_required_one_is_there(
    call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    printed = printed_json(call.arguments.split(), capsys)
    keys, required = documented_keys(call.schema, call.part)
    assert required, f"{PAGE.name} names no key of {call.schema} {call.part}"
    assert (printed["schema"], printed["schema_version"]) == (call.schema, 1)
    assert printed.keys() - EVERY_OBJECT - keys == set()
    assert required - printed.keys() == set()


def test_the_parts_of_a_task_are_documented(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    (system,) = printed_json(["task", "evidence", "evidence"], capsys)["systems"]
    keys, required = documented_keys("tamis.evidence", "A system")
    assert system.keys() == keys == required


def test_the_json_of_a_fit_is_the_manifest_of_the_sieve(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    printed = printed_json(["fit", "docs", "-o", "again", "--base", "none", "--force"], capsys)
    manifest = json.loads(Path("again/tamis.json").read_text("utf-8"))
    assert printed["schema"] == "tamis.fit"
    assert printed.keys() - manifest.keys() == EVERY_OBJECT
    assert manifest.keys() <= printed.keys()


def printed_json(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What a verb prints with --json."""
    capsys.readouterr()
    assert run([*arguments, "--json"]) == 0, capsys.readouterr().err
    printed: dict[str, Any] = json.loads(capsys.readouterr().out)
    return printed
