"""Commands that tamis prints are complete: they run as they stand."""

from __future__ import annotations

import ast
import io
import json
import re
import shlex
import sys
from pathlib import Path

import pytest

import tamis
from tamis.cli.app import run

VERBS = (
    "import-model|convert|evaluate|export|fit|fuse|index|info|judge|label|rerank|search|train|tune"
)
PLACEHOLDER = re.compile(rf"\btamis ({VERBS}) [^;\n]*(?<![-\w])[A-Z]{{3,}}\b")
COMMAND = rf"\btamis ({VERBS}) [^;:`]*$"
THINGS = "sieve drum net grain flour fish".split()


def printed(text: str) -> list[list[str]]:
    """The commands in what was said, word by word."""
    lines = re.findall(r"(?:: +|^ +)(tamis .*)$", text, re.MULTILINE)
    return [shlex.split(line)[1:] for line in lines]


def strings(tree: ast.AST) -> list[str]:
    """What may be printed: all strings but docstrings and help."""
    skipped = set[int]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(id(node.value))
        if isinstance(node, ast.keyword) and node.arg == "help":
            skipped.update(id(inner) for inner in ast.walk(node))
        if isinstance(node, ast.JoinedStr):
            skipped.update(id(inner) for inner in node.values)
    found = []
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(node.value)
        if isinstance(node, ast.JoinedStr):
            found.append("".join(getattr(part, "value", "{}") if isinstance(part, ast.Constant)
                                 else "x" for part in node.values))  # fmt: skip
    return found


def test_no_printed_command_has_a_word_to_fill_in() -> None:
    found = []
    for path in Path(tamis.__file__).parent.rglob("*.py"):
        for text in strings(ast.parse(path.read_text("utf-8"))):
            found += [f"{path.name}: {text}" for _ in PLACEHOLDER.findall(text)]
    assert not found


def test_no_printed_command_has_an_unquoted_value() -> None:
    """Names with blanks need quotes: commands with values are made by `errors.command`."""
    found = []
    for path in Path(tamis.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.JoinedStr):
                continue
            before = ""
            for part in node.values:
                if isinstance(part, ast.FormattedValue) and re.search(COMMAND, before):
                    found.append(f"{path.name}:{node.lineno}: {before}")
                before += str(part.value) if isinstance(part, ast.Constant) else "x"
    assert not found


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    pairs = [(one, other) for one in THINGS for other in THINGS if one != other]
    records = [{"id": f"d{n}", "text": f"a {a} the {b}"} for n, (a, b) in enumerate(pairs)]
    Path("my docs.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    Path("queries.txt").write_text("".join(f"{a} {b}\n" for a, b in pairs[:12]))
    return tmp_path


def execute(
    command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> list[list[str]]:
    """Run a command, answering what it asks; the commands that it prints."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\nn\n" * 40))
    capsys.readouterr()
    assert run(command) == 0, (command, capsys.readouterr().err)
    return printed(capsys.readouterr().err)


@pytest.mark.parametrize("log", [True, False])
def test_what_fit_and_judge_print_runs(
    docs: Path, log: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fit = ["fit", "my docs.jsonl", "-o", "my sieve", "--base", "none", "--threads", "1"]
    to_run = execute([*fit, *(["--queries", "queries.txt"] if log else [])], capsys, monkeypatch)
    assert {command[0] for command in to_run} == {"judge", "search"}
    [judge] = [command for command in to_run if command[0] == "judge"]
    [search] = [command for command in to_run if command[0] == "search"]
    assert execute(search, capsys, monkeypatch) == []
    after = execute([*judge, "--depth", "3"], capsys, monkeypatch)
    verbs = [command[0] for command in after]
    assert verbs[-3:] == ["search", "evaluate", "fit"]
    for command in after:
        more = ["--base", "none", "--threads", "1"] if command[0] == "fit" else []
        execute([*command, *more], capsys, monkeypatch)
    fit_again = after[-1]
    sieve = fit_again[fit_again.index("-o") + 1]
    note = json.loads(Path(sieve, "tamis.json").read_text())
    assert note["plan"]["selection_queries"] == 12, "every judged query is used"


def test_a_half_judged_pool_is_gone_on_with(
    docs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(["index", "my docs.jsonl", "-o", "my index"]) == 0
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    capsys.readouterr()
    assert run(["judge", "my index", "queries.txt", "--depth", "2", "-o", "my judged"]) == 0
    [go_on, *_] = printed(capsys.readouterr().err)
    assert go_on[0] == "judge"
    after = execute(go_on, capsys, monkeypatch)
    assert after[0][0] == "search", "all is judged"


def test_what_is_printed_for_candidates_of_ones_own_runs(
    docs: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tiny_cross_encoder: Path,
) -> None:
    from tamis.models import import_model

    import_model(tiny_cross_encoder, "base", kind="bi-encoder", pooling="mean", max_length=24)
    assert run(["index", "my docs.jsonl", "-o", "i"]) == 0
    assert run(["search", "i", "queries.txt", "-o", "my run.parquet"]) == 0
    fit = ["fit", "my docs.jsonl", "-o", "s", "--queries", "queries.txt", "--base", "base"]
    own = ["--candidates", "my run.parquet", "--threads", "1", "--depth", "5"]
    to_run = execute([*fit, *own], capsys, monkeypatch)
    [rerank] = [command for command in to_run if command[0] == "rerank"]
    execute(rerank, capsys, monkeypatch)
