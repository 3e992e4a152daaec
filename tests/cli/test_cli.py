"""The command line as a user types it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tamis.cli.app import run

QRELS = "q1 0 d1 1\nq1 0 d2 0\nq2 0 d3 2\nq3 0 d1 1\n"
GOOD = "q1 Q0 d1 1 9.5 a\nq1 Q0 d2 2 7 a\nq2 Q0 d3 1 5 a\nq2 Q0 d1 2 4 a\nq3 Q0 d1 1 1 a\n"
BAD = "q1 Q0 d2 1 9.5 a\nq1 Q0 d1 2 7 a\nq2 Q0 d1 1 5 a\nq2 Q0 d3 2 4 a\n"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("qrels.txt").write_text(QRELS)
    Path("good.trec").write_text(GOOD)
    Path("bad.trec").write_text(BAD)
    Path("docs.jsonl").write_text(
        '{"id": "d1", "text": "drum sieve"}\n{"id": "d2", "text": "net"}\n'
    )
    return tmp_path


def two_lines(captured: str) -> tuple[str, str]:
    lines = captured.splitlines()
    assert len(lines) == 2, captured
    assert lines[0].startswith("error: ")
    assert lines[1].startswith("hint: ")
    return lines[0].removeprefix("error: "), lines[1].removeprefix("hint: ")


def test_evaluate_json(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["evaluate", "qrels.txt", "good.trec", "bad.trec", "-m", "RR@10", "--json"]
    assert run([*arguments, "--baseline", "good.trec", "--agreement"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["runs"]["good.trec"]["values"]["RR@10"] == 1
    assert found["runs"]["bad.trec"]["values"]["RR@10"] == pytest.approx((1 / 2 + 1 / 2 + 0) / 3)
    assert found["runs"]["bad.trec"]["missing"] == 1
    [comparison] = found["comparisons"]
    assert (comparison["wins"], comparison["ties"], comparison["losses"]) == (0, 0, 3)
    assert found["agreement"][0]["overlap"] == 1


def test_evaluate_prints_a_table_and_says_what_is_missing(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["evaluate", "qrels.txt", "bad.trec", "-m", "RR@10"]) == 0
    out = capsys.readouterr().out
    assert "0.3333" in out
    assert "1 query missing from the run, counted as zero" in out
    assert "\x1b[" not in out, "no colours in a pipe"


@pytest.mark.parametrize(("option", "part"), [("--latex", r"\toprule"), ("--markdown", "| run")])
def test_evaluate_for_papers(
    option: str, part: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["evaluate", "qrels.txt", "good.trec", option]) == 0
    assert part in capsys.readouterr().out
    arguments = ["evaluate", "qrels.txt", "good.trec", "--baseline", "bad.trec", "--agreement"]
    assert run([*arguments, option]) == 0
    out = capsys.readouterr().out
    assert "win/tie/loss" in out
    assert "Kendall's tau" in out


def test_evaluate_writes_values_and_report(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["evaluate", "qrels.txt", "good.trec", "-m", "AP", "--html", "report.html"]
    assert run([*arguments, "--per-query", "values.jsonl"]) == 0
    rows = [json.loads(line) for line in Path("values.jsonl").read_text().splitlines()]
    assert rows[0] == {"run": "good.trec", "query": "q1", "measure": "AP", "value": 1.0}
    assert "<html" in Path("report.html").read_text()
    capsys.readouterr()
    assert run(arguments) == 1
    assert two_lines(capsys.readouterr().err.split("report:")[0])[0] == "report.html exists already"
    assert run([*arguments, "--force"]) == 0


def test_evaluate_as_a_regression_test(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ranks = {f"q{n:02}": n for n in range(20)}
    Path("many.txt").write_text("".join(f"{q} 0 right 1\n" for q in ranks))
    row = "{q} Q0 right 1 {score} x\n{q} Q0 wrong 2 5 x\n"
    Path("start").write_text(
        "".join(row.format(q=q, score=9 if n else 1) for q, n in ranks.items())
    )
    Path("ruined").write_text("".join(row.format(q=q, score=1) for q in ranks))
    arguments = ["evaluate", "many.txt", "ruined", "--baseline", "start", "--fail-if-worse", "0.05"]
    assert run([*arguments, "-m", "RR@10"]) == 1
    assert "worse: ruined is below start in RR@10 by 0.4750" in capsys.readouterr().err
    swapped = ["evaluate", "many.txt", "start", "--baseline", "ruined", "--fail-if-worse", "0.05"]
    assert run(swapped) == 0
    assert run(["evaluate", "many.txt", "ruined", "--fail-if-worse", "0.05"]) == 2


def test_stdin_and_stdout(files: Path) -> None:
    command = [sys.executable, "-c", "from tamis.cli import main; main()", "convert", "-", "-"]
    done = subprocess.run(command, input=GOOD.encode(), capture_output=True, check=True, cwd=files)
    assert done.stdout.decode().splitlines()[0] == "q1 Q0 d1 1 9.5 tamis"


def test_convert_and_info(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["convert", "docs.jsonl", "store"]) == 0
    assert run(["convert", "store", "table.csv", "--to", "csv"]) == 0
    assert run(["convert", "good.trec", "good.parquet"]) == 0
    assert run(["info", "store", "--verify"]) == 0
    capsys.readouterr()
    assert run(["info", "table.csv", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["documents"]["count"] == 2
    assert run(["info", "good.parquet", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 5
    assert run(["info", "qrels.txt", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["by_grade"] == {"0": 1, "1": 2, "2": 1}


def test_fuse(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fuse", "good.trec", "bad.trec", "-o", "both.trec", "--top", "1"]) == 0
    assert (
        run(
            [
                "fuse",
                "bad.trec",
                "good.trec",
                "-o",
                "tuned.trec",
                "--method",
                "sum",
                "--tune",
                "qrels.txt",
            ]
        )
        == 0
    )
    assert "weight of good.trec" in capsys.readouterr().err
    assert len(Path("both.trec").read_text().splitlines()) == 3
    assert run(["fuse", "good.trec", "-o", "x"]) == 2
    assert run(["fuse", "good.trec", "bad.trec", "-o", "x", "--tune", "qrels.txt"]) == 2


BAD_INPUTS = [
    (["info", "early.trec"], "early.trec:2: 5 columns instead of 6"),
    (["evaluate", "qrels.txt", "good.trec", "--per-query", "x.xyz"], "cannot write values as .xyz"),
    (["evaluate", "qrels.txt", "good.trec", "-m", "RBP"], "cannot compute RBP here"),
    (["info", "broken.jsonl"], "broken.jsonl:2: "),
    (["info", "nowhere"], "no file or folder nowhere"),
    (["info", "tamis:nothing"], "there is no collection tamis:nothing"),
    (["info", "empty.txt"], "empty.txt is empty"),
    (["info", "qrels.txt", "--verify"], "no checksums"),
    (["evaluate", "qrels.txt", "short.trec"], "short.trec:2: 5 columns instead of 6"),
    (["evaluate", "qrels.txt", "twice.trec"], "twice.trec:2: query 'q1' lists document 'd1'"),
    (["evaluate", "qrels.txt", "latin.trec"], "latin.trec:1: byte 0xe9"),
    (["evaluate", "qrels.txt", "good.trec", "-m", "nDGC@10"], "nDGC@10"),
    (["evaluate", "qrels.txt", "other.trec"], "no query of run 'other.trec' is judged"),
    (["evaluate", "half.txt", "good.trec"], "half.txt:1: the grade is 0.5"),
    (["convert", "good.trec", "qrels.txt"], "qrels.txt exists already"),
    (["convert", "good.trec", "out", "--to", "msmarco"], "cannot write a run as 'msmarco'"),
]


@pytest.mark.parametrize(("arguments", "said"), BAD_INPUTS, ids=lambda value: str(value)[:60])
def test_bad_input_is_two_lines(
    arguments: list[str], said: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("broken.jsonl").write_text('{"id": "d1", "text": "a"}\n{"id": "d2", "text": \n')
    Path("empty.txt").write_text("")
    Path("short.trec").write_text("q1 Q0 d1 1 9.5 a\nq1 Q0 d2 2 7\n")
    Path("twice.trec").write_text("q1 Q0 d1 1 9.5 a\nq1 Q0 d1 2 7 a\n")
    Path("latin.trec").write_bytes("q1 Q0 café 1 9.5 a\n".encode("latin-1"))
    Path("other.trec").write_text("topic Q0 d1 1 9.5 a\n")
    Path("half.txt").write_text("q1 0 d1 0.5\n")
    Path("early.trec").write_text(GOOD.replace("7 a", "7", 1))
    assert run(arguments) == 1
    captured = capsys.readouterr()
    problem, _ = two_lines(captured.err)
    assert said in problem


def test_skipping_counts_and_reports(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("mixed.jsonl").write_text('{"id": "d1", "text": "a"}\n{"id": \n{"id": "d2", "text": ""}\n')
    assert run(["info", "mixed.jsonl", "--on-error", "skip", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["bad_lines_skipped"] == 1
    assert found["documents"]["count"] == 2
    assert found["documents"]["without_text"] == 1
    assert any("d2" in warning for warning in found["warnings"])


@pytest.mark.parametrize("line", ["q1 Q0 d1 3 1 a", "q1 Q0 d9 3 nan a", "q1 Q0 d9 3"])
def test_a_run_with_a_bad_line_skipped_says_so(
    line: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("mixed.trec").write_text(GOOD + line + "\n")
    assert run(["info", "mixed.trec", "--on-error", "skip"]) == 0
    captured = capsys.readouterr()
    assert "bad lines skipped" in captured.out
    assert "mixed.trec:6" in captured.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["no-such-verb"],
        ["info"],
        ["evaluate", "--colour"],
        ["evaluate", "qrels", "run", "--json", "--latex"],
        ["evaluate", "qrels", "run", "--baseline", "run", "--fail-if-worse", "5"],
    ],
)
def test_misuse_exits_with_two(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    assert "--help" in two_lines(capsys.readouterr().err)[1]


def test_every_verb_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    from tamis.cli.app import verbs_app

    for command in verbs_app().registered_commands:
        assert run([str(command.name), "--help"]) == 0
        assert f"Example: tamis {command.name}" in capsys.readouterr().out.replace("\n", " ")


@pytest.mark.parametrize("width", ["40", "200"])
def test_width_and_colour_of_a_terminal(width: str, files: Path) -> None:
    code = "import sys; sys.stdout.isatty = lambda: True; from tamis.cli import main; main()"
    command = [sys.executable, "-c", code, "evaluate", "qrels.txt", "good.trec"]
    environment = {**os.environ, "COLUMNS": width, "TERM": "xterm", "NO_COLOR": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env=environment, cwd=files
    )
    plain = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)
    assert max(map(len, plain.splitlines())) <= int(width)
    assert "…" not in plain, "nothing is cut off"
    assert "1.0000" in plain
    assert "\x1b[3" not in done.stdout, "NO_COLOR means no colour"


def test_a_closed_pipe_is_no_error(files: Path) -> None:
    command = (
        f"{sys.executable} -c 'from tamis.cli import main; main()' info tamis:pydocs | head -1"
    )
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    progress = ("reading documents", "kernel")  # on a slow machine, or a new one
    told = [line for line in done.stderr.splitlines() if not any(w in line for w in progress)]
    assert told == []


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    import tamis

    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"tamis {tamis.__version__}\n"
