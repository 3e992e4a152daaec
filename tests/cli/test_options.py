"""Options mean the same everywhere, and output suits pipes, terminals and programs."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main

from tamis.cli.app import run, verbs_app
from tamis.cli.common import show_facts, show_json
from tamis.cli.options import ADVANCED_PANEL, INPUT_PANEL, OUTPUT_PANEL, PANEL_ORDER

READS_COLLECTIONS = (
    "fit", "index", "update", "rerank", "train", "export", "info", "convert", "label gold",
    "label pseudo", "label weak", "label teacher", "label transfer",
)  # fmt: skip


def commands() -> dict[str, Any]:
    """Every verb by its full name."""
    verbs = vars(typer.main.get_command(verbs_app()))["commands"]
    names = [name for name, verb in verbs.items() if hasattr(verb, "commands")]
    groups = {name: verbs.pop(name).commands for name in names}
    inner = {f"{name} {verb}": of[verb] for name, of in groups.items() for verb in of}
    return {**verbs, **inner}


COMMANDS = commands()


@pytest.mark.parametrize("verb", READS_COLLECTIONS)
def test_every_verb_that_reads_a_collection_says_how(verb: str) -> None:
    options = {option for param in COMMANDS[verb].params for option in param.opts}
    assert {"--format", "--id", "--text", "--title", "--on-error"} <= options


def test_common_options_come_first_and_advanced_ones_last() -> None:
    last = len(PANEL_ORDER) - 1
    for verb in COMMANDS.values():
        panels = [getattr(param, "rich_help_panel", None) for param in verb.params]
        places = [PANEL_ORDER.index(panel) if panel in PANEL_ORDER else 0 for panel in panels]
        assert places == sorted(places)
        assert max(places) <= last
    assert PANEL_ORDER == (None, INPUT_PANEL, OUTPUT_PANEL, ADVANCED_PANEL)


def test_an_option_has_one_help_where_it_is_shared() -> None:
    for option in ("--threads", "--force", "--json", "--format", "--id", "--queries"):
        helps = {
            param.help
            for verb in COMMANDS.values()
            for param in verb.params
            if option in param.opts
        }
        assert len(helps) == 1, option


def test_help_has_phrases_that_end() -> None:
    for name, verb in COMMANDS.items():
        for param in verb.params:
            assert param.help and re.search(r"[.…]$", param.help), (name, param.name)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("qrels.txt").write_text("q1 0 d1 1\nq2 0 d2 1\n")
    Path("a.trec").write_text("q1 Q0 d1 1 2 x\nq2 Q0 d1 1 2 x\n")
    Path("b.trec").write_text("q1 Q0 d2 1 2 x\nq2 Q0 d2 1 2 x\n")
    return tmp_path


def test_runs_have_names(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evaluate = ["evaluate", "qrels.txt", "BM25=a.trec", "b.trec", "-m", "RR"]
    assert run([*evaluate, "--baseline", "BM25", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert list(facts["runs"]) == ["BM25", "b.trec"]
    assert [row["baseline"] for row in facts["comparisons"]] == ["BM25"]
    assert run(["evaluate", "qrels.txt", "x=a.trec", "x=b.trec"]) == 1
    assert "two runs are called x" in capsys.readouterr().err
    Path("odd=name.trec").write_bytes(Path("a.trec").read_bytes())
    assert run(["evaluate", "qrels.txt", "odd=name.trec", "-m", "RR", "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)["runs"]) == ["odd=name.trec"]


def test_what_cannot_be_written_is_refused_before_the_work(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["evaluate", "qrels.txt", "a.trec", "--per-query", "x.xlsx"]) == 1
    printed = capsys.readouterr()
    assert (printed.out, "xlsx" in printed.err) == ("", True)
    assert run(["search", "index", "queries.tsv", "-o", "run.trec", "--json"]) == 2
    assert "--json" in capsys.readouterr().err


def test_json_has_a_schema_and_no_nan(capsys: pytest.CaptureFixture[str]) -> None:
    show_json("test", {"tau": float("nan"), "rows": [{"p": float("inf")}, 1.5], "name": "x"})
    text = capsys.readouterr().out
    assert json.loads(text, parse_constant=pytest.fail) == {
        "schema": "tamis.test", "schema_version": 1, "tau": None, "rows": [{"p": None}, 1.5],
        "name": "x",
    }  # fmt: skip


def test_in_a_pipe_nothing_is_padded_or_wrapped(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    show_facts({"short": 1, "long_name": "word " * 100})
    assert run(["evaluate", "qrels.txt", "a.trec", "b.trec", "-m", "RR"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "short      1"
    assert lines[1] == "long name  " + ("word " * 100).rstrip()
    assert [line.split()[0] for line in lines[2:5]] == ["run", "a.trec", "b.trec"]
    assert all(line == line.rstrip() for line in lines)


def test_in_a_terminal_long_values_wrap_beside_their_name() -> None:
    script = "from tamis.cli.common import show_facts; show_facts({'a': 'word ' * 40, 'b': 2})"
    leader, follower = pty.openpty()
    environment = {**os.environ, "COLUMNS": "60", "NO_COLOR": "1", "TERM": "xterm"}
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=follower, stderr=follower, env=environment
    ) as process:
        os.close(follower)
        text = b""
        try:
            while block := os.read(leader, 4096):
                text += block
        except OSError:  # the terminal is closed when the process ends
            pass
        assert process.wait() == 0
    lines = text.decode().splitlines()
    assert len(lines) > 3
    assert lines[0].startswith("a  word")
    assert all(line.startswith("   word") for line in lines[1:-1])
    assert lines[-1].split() == ["b", "2"]


def test_the_shell_completes_verbs_and_options(folder: Path) -> None:
    def completed(words: str, place: int) -> list[str]:
        variables = {"_TAMIS_COMPLETE": "complete_bash", "COMP_WORDS": words}
        environment = {**os.environ, **variables, "COMP_CWORD": str(place)}
        command = [sys.executable, "-c", "from tamis.cli import main; main()"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        return done.stdout.split()

    assert completed("tamis ev", 1) == ["evaluate"]
    assert "--rm3-terms" in completed("tamis search --rm3", 2)


def test_columns_of_ones_own(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"sku": f"s{n}", "body": f"{word} sieve for grain"} for n, word in enumerate("ab")]
    Path("docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    columns = ["--id", "sku", "--text", "body"]
    assert run(["fit", "docs.jsonl", "-o", "my.sieve", "--base", "none", *columns]) == 0
    Path("queries.tsv").write_text("q1\tsieve\n")
    Path("own.trec").write_text("q1 Q0 s0 1 2 x\nq1 Q0 s1 2 1 x\n")
    label = ["label", "pseudo", "-c", "docs.jsonl", "-o", "x.parquet", "--candidates", "own.trec"]
    assert run([*label, "--show", "1", "--queries", "queries.tsv", *columns]) == 0
    assert "a sieve for grain" in capsys.readouterr().out
    assert run(["search", "my.sieve", "sieve", "--json"]) == 0
    hits = json.loads(capsys.readouterr().out)["hits"]
    assert {hit["id"] for hit in hits} == {"s0", "s1"}
