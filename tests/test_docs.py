"""The documentation is true: its code runs, its links lead somewhere, every verb and option is in.

Blocks of a page run in order in one folder of their own. A `python` block is executed, or, where
it has `>>>`, checked as a doctest. A `console` block has commands after `$ `; what is printed
below one is compared with what it prints, `…` standing for anything. A command fails exactly where
the page shows an error. Plain calls of `tamis` run in this process, all else in a shell. A block
marked `python skip` or `console skip` says why in a comment on its first line.
"""

import doctest
import importlib.util
import inspect
import io
import os
import pkgutil
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer.main

import tamis
from tamis.cli.app import run, verbs_app

ROOT = Path(__file__).parents[1]
PAGES = [path for path in [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))] if path.exists()]
MODEL = "all-MiniLM-L6-v2"
"""What blocks that run a model name."""
REFERENCE = ROOT / "docs/reference/cli.md"


def flat(commands: dict[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Verbs by name, those of a group with the group's name before theirs."""
    for name, command in commands.items():
        inside = getattr(command, "commands", None)
        yield from flat(inside, f"{before}{name} ") if inside else [(f"{before}{name}", command)]


COMMANDS: dict[str, Any] = dict(flat(vars(typer.main.get_command(verbs_app()))["commands"]))
MODULES = sorted(module.name for module in pkgutil.walk_packages(tamis.__path__, "tamis."))
PUBLIC = re.compile(r"tamis\.(types|collection|evaluation|splits|pipeline)(\.[a-z]\w*)*")
FAILURES = ("error:", "worse:")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


class Block(NamedTuple):
    line: int
    language: str
    code: str


def blocks_of(text: str) -> list[Block]:
    """The fenced blocks of a page, with the line their code begins on."""
    found: list[Block] = []
    fence, begin, code = "", 0, list[str]()
    for number, line in enumerate(text.split("\n"), 1):
        if not fence and line.startswith("```"):
            fence, begin, code = line[3:].strip() or "text", number + 1, []
        elif fence and line.rstrip() == "```":
            found.append(Block(begin, fence, "\n".join(code) + "\n"))
            fence = ""
        elif fence:
            code.append(line)
    assert not fence, f"the block above line {begin} has no end"
    return found


def commands_of(code: str) -> Iterator[tuple[str, str]]:
    """The commands of a console block, here-documents included, each with the output shown."""
    lines = iter(code.rstrip("\n").split("\n"))
    command, output = "", list[str]()
    for line in lines:
        if not line.startswith("$ "):
            assert command, f"output before a command: {line}"
            output.append(line)
            continue
        if command:
            yield command, "\n".join(output)
        command, output = line[2:], []
        while command.endswith("\\"):
            command += "\n" + next(lines)
        if here := re.search(r"<<\s*'?(\w+)'?", command):
            for inside in lines:
                command += "\n" + inside
                if inside == here[1]:
                    break
    if command:
        yield command, "\n".join(output)


PROGRESS = re.compile(
    r"\w[^:]*: [\d,]+ .*, [\d.,]+ a second(?:, .* left)?$|compiled \d+ kernels? in [\d.]+ s$"
)
"""A line that only a slow machine prints, or one that compiles kernels for the first time."""


def pattern_of(shown: str) -> re.Pattern[str]:
    """What the output must look like; a line `…` is any number of lines, else part of one."""
    parts = []
    for line in shown.split("\n"):
        if line.strip() == "…":
            parts.append(r"(?:.*\n)*?")
        else:
            parts.append(r".*".join(map(re.escape, line.rstrip().split("…"))) + r"\n")
    return re.compile("".join(parts))


def in_this_process(arguments: list[str]) -> tuple[int, str]:
    """The exit code and all output of the command line, without the price of starting Python."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    with redirect_stdout(out), redirect_stderr(out), pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["tamis", *arguments])
        code = run(arguments)
        out.seek(0)
        return code, out.read()


def in_a_shell(command: str) -> tuple[int, str]:
    """The exit code and all output of a line of shell, which finds the installed `tamis`."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", command],
        env={**os.environ, "PATH": path, "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=120,
    )
    return done.returncode, done.stdout


def run_console(block: Block) -> None:
    for command, shown in commands_of(block.code):
        plain = command.replace("\\\n", " ")
        if plain.startswith("tamis ") and not re.search(r"[|<>;&$`*\n]", plain):
            code, printed = in_this_process(shlex.split(plain)[1:])
        else:
            code, printed = in_a_shell(command)
        lines = [line.rstrip() + "\n" for line in printed.splitlines()]
        printed = "".join(line for line in lines if not PROGRESS.match(line))
        fails = any(line.startswith(FAILURES) for line in shown.split("\n"))
        assert (code != 0) == fails, f"$ {command}\n{printed}"
        if shown:
            assert pattern_of(shown.rstrip()).fullmatch(printed.rstrip() + "\n"), (
                f"$ {command}\n{printed}"
            )


def run_python(block: Block, page: str, names: dict[str, Any]) -> None:
    if not re.match(r"\s*>>> ", block.code):
        exec(compile("\n" * (block.line - 1) + block.code, page, "exec"), names)
        return
    test = doctest.DocTestParser().get_doctest(block.code, names, page, page, block.line - 1)
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    failed = runner.run(test, out=said.append, clear_globs=False).failed
    names.update(test.globs)
    assert not failed, "".join(said)


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_every_code_block_runs(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    blocks = list(blocks_of(path.read_text("utf-8")))
    run_blocks = [block for block in blocks if not block.language.endswith(" skip")]
    if any(MODEL in block.code for block in run_blocks):
        pytest.importorskip("torch", reason="torch is not installed")
    if any("pandas" in block.code for block in run_blocks):
        pytest.importorskip("pandas", reason="pandas is not installed")
    for block in blocks:
        if block.language.endswith(" skip"):
            assert block.code.startswith("# "), f"line {block.line}: say why it is skipped"
        elif block.language == "python":
            run_python(block, name_of(path), names)
        elif block.language == "console":
            run_console(block)


def test_an_output_is_compared_line_by_line() -> None:
    block = "$ cat > a <<'EOF'\nx\nEOF\n$ tamis info \\\n    a\none … three\n…\nlast\n"
    (first, nothing), (second, shown) = commands_of(block)
    assert (first, nothing) == ("cat > a <<'EOF'\nx\nEOF", "")
    assert second == "tamis info \\\n    a"
    assert pattern_of(shown).fullmatch("one two three\nand\nmore\nlast\n")
    assert pattern_of(shown).fullmatch("one 2 three\nlast\n")
    assert not pattern_of(shown).fullmatch("one two three\nlast\nmore\n")


def section_of(heading: str) -> str:
    """What the reference says under a heading, with the shared options that it links to."""
    text = REFERENCE.read_text("utf-8")
    sections = re.findall(r"^## (.*?)$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    by_anchor = {anchor_of(head): section for head, section in sections}
    assert anchor_of(heading) in by_anchor, f"{name_of(REFERENCE)} has no section ## {heading}"
    return with_shared_options(anchor_of(heading), by_anchor)


def with_shared_options(anchor: str, by_anchor: dict[str, str]) -> str:
    shared = re.findall(r"\]\(#(options-[\w-]+)\)", by_anchor[anchor])
    return by_anchor[anchor] + "".join(with_shared_options(name, by_anchor) for name in shared)


@pytest.mark.parametrize("verb", sorted(COMMANDS))
def test_the_reference_has_every_verb_and_option_and_no_other(verb: str) -> None:
    params = COMMANDS[verb].params
    names = {name for param in params for name in [*param.opts, *param.secondary_opts]}
    options = {name for name in names if name.startswith("-")} - {"-h", "--help"}
    described = set(re.findall(r"(?<=`)-{1,2}[a-z][a-z0-9-]*", section_of(f"`tamis {verb}`")))
    assert described - {"-h", "--help"} == options


def test_the_reference_has_no_other_verb() -> None:
    verbs = re.findall(r"^## `tamis ([a-z -]+)`$", REFERENCE.read_text("utf-8"), re.MULTILINE)
    assert sorted(verbs) == sorted(COMMANDS)


def anchors_of(path: Path) -> set[str]:
    """The anchors that a page's headings have on GitHub."""
    prose = re.sub(r"^```.*?^```", "", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    heads = re.findall(r"^#+ (.*)$", prose, re.MULTILINE)
    return {anchor_of(head) for head in heads}


def anchor_of(head: str) -> str:
    return re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-")


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_links_lead_somewhere(path: Path) -> None:
    prose = re.sub(r"^```.*?^```", "", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        there = (path.parent / file).resolve() if file else path
        assert there.exists(), f"{name_of(path)}: {target} is not there"
        if anchor:
            assert anchor in anchors_of(there), f"{name_of(path)}: {target} has no such heading"


def test_every_page_can_be_reached_from_the_index() -> None:
    docs = ROOT / "docs"
    index = (docs / "README.md").read_text("utf-8")
    linked = {(docs / target).resolve() for target in re.findall(r"\]\(([^)#\s]+)", index)}
    pages = {path.resolve() for path in docs.glob("*/*.md")} | {docs / "tutorial.md"}
    assert not pages - linked


@pytest.mark.parametrize("name", [name for name in MODULES if PUBLIC.fullmatch(name)])
def test_what_is_public_has_a_docstring(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__doc__
    for thing, value in vars(module).items():
        is_ours = getattr(value, "__module__", None) == name and not thing.startswith("_")
        if is_ours and (inspect.isclass(value) or inspect.isroutine(value)):
            # A dataclass without one gets its signature for a docstring.
            made = inspect.isclass(value) and (value.__doc__ or "").startswith(f"{thing}(")
            assert value.__doc__ and not made, f"{name}.{thing} has no docstring"


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_docstrings_run(name: str) -> None:
    spec = importlib.util.find_spec(name)
    assert spec is not None and spec.origin is not None
    if "import torch" in Path(spec.origin).read_text("utf-8"):
        pytest.importorskip("torch", reason="torch is not installed")
    assert doctest.testmod(importlib.import_module(name)).failed == 0
