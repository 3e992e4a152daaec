"""Mistakes on the command line, streams that are closed, and Ctrl-C at any moment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tamis.cli.app import run
from tamis.collection.querylog import query_id

TAMIS = [sys.executable, "-m", "tamis"]
SHELL = f"{sys.executable} -m tamis"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("docs.jsonl").write_text(
        '{"id": "d1", "text": "drum sieve"}\n{"id": "d2", "text": "net"}\n'
    )
    Path("log.txt").write_text("drum sieve\nfishing net\n")
    names = query_id("drum sieve"), query_id("fishing net")
    Path("qrels.txt").write_text(f"{names[0]} 0 d1 1\n{names[1]} 0 d2 1\n")
    assert run(["index", "docs.jsonl", "-o", "index"]) == 0
    assert run(["search", "index", "log.txt", "-o", "out.trec"]) == 0
    return tmp_path


def messages(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What was printed to stderr, but for kernels that a new machine compiles."""
    return [line for line in done.stderr.splitlines() if "kernel" not in line]


def shell(command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, check=False, timeout=120
    )


def tamis(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*TAMIS, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def refused(*arguments: str) -> tuple[str, str]:
    """The problem and the hint of a command that ends with both."""
    done = tamis(*arguments)
    assert done.returncode == 1, done.stderr
    problem, hint = messages(done)
    assert problem.startswith("error: ")
    assert hint.startswith("hint: ")
    return problem, hint


def test_a_file_is_not_words(folder: Path) -> None:
    problem, hint = refused("search", "index", "log.txt")
    assert "log.txt is a file" in problem
    assert "tamis search index log.txt -o " in hint
    assert "tamis:pydocs is a collection" in refused("search", "index", "tamis:pydocs")[0]
    assert tamis("search", "index", " log.txt").returncode == 0
    Path("net").mkdir()
    assert "d2" in tamis("search", "index", "net").stdout  # a folder may be called like a word


def test_swapped_arguments_are_seen(folder: Path) -> None:
    problem, hint = refused("search", "drum sieve", "index")
    assert "index is" in problem
    assert "tamis search index 'drum sieve'" in hint
    problem, hint = refused("evaluate", "out.trec", "qrels.txt")
    assert "out.trec is a run" in problem
    assert "tamis evaluate qrels.txt out.trec" in hint
    assert (
        "tamis evaluate qrels.txt out.trec b"
        in refused("evaluate", "out.trec", "b", "qrels.txt")[1]
    )


@pytest.mark.parametrize(
    ("content", "format", "name", "advice"),
    [
        ("id;text\n1;a drum\n", [], "semicolons", "commas"),
        ("id;title;text\n1;a;b\n", ["--format", "csv"], "semicolons", "commas"),
        ("id;text\n1;a drum\n", ["--format", "tsv"], "semicolons", "commas"),
        ("id|text\n1|a drum\n", [], "vertical bars", "commas"),
        ("id\ttext\n1\ta drum\n", ["--format", "csv"], "tabs", "--format tsv"),
        ("id,text\n1,a drum\n", ["--format", "tsv"], "commas", "--format csv"),
    ],
)
def test_another_separator_is_named(
    content: str, format: list[str], name: str, advice: str, folder: Path
) -> None:
    Path("table.csv").write_text(content)
    problem, hint = refused("index", "table.csv", "-o", "other", *format)
    assert name in problem
    assert advice in hint


@pytest.mark.parametrize(
    "verb",
    ["--help", "info tamis:pydocs", "search index drum", "info docs.jsonl --json", "--version"],
)
def test_who_reads_no_more_hears_nothing(verb: str, folder: Path) -> None:
    for reader in ("head -c 1 > /dev/null", "true"):
        done = shell(f"{SHELL} {verb} | {reader}; exit ${{PIPESTATUS[0]}}")
        assert (done.returncode, messages(done)) == (0, [])


def test_broken_only_when_everything_is_flushed(folder: Path) -> None:
    """The reader is gone before anything is printed, and all of it fits the buffer."""
    code = (
        "import os, sys; read, write = os.pipe(); os.close(read); os.dup2(write, 1);"
        "from tamis.cli import main; sys.argv[1:] = ['info', 'docs.jsonl', '--json']; main()"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, messages(done)) == (0, [])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_under_stdout_is_an_error(folder: Path) -> None:
    for verb in ("info docs.jsonl --json", "search index drum"):
        done = shell(f"{SHELL} {verb} > /dev/full")
        assert done.returncode == 1
        assert "No space left" in done.stderr
        assert "Traceback" not in done.stderr
        assert "Exception ignored" not in done.stderr


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(
    ("verb", "code"),
    [("info docs.jsonl", 0), ("info nothing", 1), ("search index drum", 0), ("--bad", 2)],
)
def test_closed_streams(closed: str, verb: str, code: int, folder: Path) -> None:
    done = shell(f"{SHELL} {verb} {closed}")
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert "Error" not in done.stderr


def test_no_file_takes_the_place_of_a_closed_stream(folder: Path) -> None:
    assert shell(f"{SHELL} index docs.jsonl -o other >&- 2>&-").returncode == 0
    assert tamis("info", "other", "--verify").returncode == 0


@pytest.mark.parametrize("module", ["typer", "tamis.cli.common", "numpy", "tamis.search"])
@pytest.mark.parametrize("start", ["-m tamis", "-c 'from tamis.cli import main; main()'"])
def test_ctrl_c_while_modules_are_imported(module: str, start: str, folder: Path) -> None:
    Path("sitecustomize.py").write_text(
        "import signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "class Finder:\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name == {module!r}:\n"
        "            signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
    )
    path = os.pathsep.join([str(Path.cwd()), os.environ.get("PYTHONPATH", "")])
    done = shell(f"PYTHONPATH={path} {sys.executable} {start} search index drum")
    assert done.returncode == 130
    assert "interrupted" in done.stderr.splitlines()[0]
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) <= 2


def test_ctrl_c_while_a_verb_works(folder: Path) -> None:
    """A pipe that nobody closes is read until the signal comes."""
    with subprocess.Popen(
        [*TAMIS, "convert", "-", "out"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as job:
        assert job.stdin is not None
        assert job.stderr is not None
        job.stdin.write(b"x" * (1 << 20))  # more than a pipe holds: now it reads
        job.stdin.flush()
        job.send_signal(signal.SIGINT)
        said = job.stderr.read().decode()
    assert job.returncode == 130
    assert said.splitlines()[0] == "error: interrupted"
    assert "Traceback" not in said


def test_words_that_are_not_utf8_are_printed(folder: Path) -> None:
    command = [*map(os.fsencode, TAMIS), b"search", b"index", b"drum \xff", b"--json"]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert rb"drum \udcff" in done.stdout


def test_a_fit_that_nobody_reads_any_more_goes_on(folder: Path) -> None:
    command = f"{SHELL} fit docs.jsonl -o s --base none 2>&1 | head -1; echo ${{PIPESTATUS[0]}}"
    assert shell(command).stdout.splitlines()[-1] == "0"
    assert Path("s/tamis.json").is_file() and not Path("s.fitting").exists()


def test_folders_of_judgements_are_known_where_files_are(folder: Path) -> None:
    assert run(["convert", "qrels.txt", "my-test", "--queries", "log.txt"]) == 0
    assert run(["convert", "qrels.txt", "contest", "--queries", "log.txt"]) == 0
    problem, hint = refused("evaluate", "out.trec", "my-test")
    assert "my-test holds judgements" in problem
    assert hint.endswith("tamis evaluate my-test out.trec")
    problem, hint = refused("search", "index", "my-test")
    assert "not words to search for" in problem
    assert "tamis search index my-test -o run.trec" in hint
    problem, hint = refused("search", "log.txt", "index", "-o", "my run.trec")
    assert hint.endswith("tamis search index log.txt -o 'my run.trec'")
    Path("my-test/qrels/qrels.tsv").rename("my-test/qrels/DevTest.tsv")
    for name, is_test in (("my-test", True), ("contest", False)):
        assert ("is a test split" in tamis("tune", "index", name, name).stderr) == is_test
