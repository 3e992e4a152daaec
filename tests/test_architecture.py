"""Each room imports only rooms that stand above it, and importing does nothing costly."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tamis

SOURCE = Path(tamis.__file__).parent
ROOMS = """
errors terminal cores _jit types durable manifest registry pages evaluation text collection
splits experiments search backends scorers pipeline models labels label training rankers explain
fitting judging tasks studies adapters serve warm_up cli testing
""".split()


def room_of(path: Path) -> str:
    first = path.relative_to(SOURCE).parts[0]
    return first.removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = [node.module]
            if node.module == "tamis":
                names = [f"tamis.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        rooms |= {name.split(".")[1] for name in names if name.startswith("tamis.")}
    return rooms - {"__version__"}


FILES = [
    path
    for path in sorted(SOURCE.rglob("*.py"))
    if path.parent != SOURCE or path.stem not in ("__init__", "__main__")
]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_room_imports_only_rooms_above_it(path: Path) -> None:
    here = room_of(path)
    assert here in ROOMS, f"{here} is not a room of the house"
    allowed = {*ROOMS[: ROOMS.index(here) + 1]}
    below = imported_rooms(path) - allowed
    assert not below, f"{here} imports {sorted(below)}, which stand below it"


MAY_NAME_MODULES = ("registry.py", "__init__.py")
"""The table of openers, and the names that `import tamis` offers."""


def named_modules(path: Path) -> set[str]:
    """The strings of a file that name a module of tamis, perhaps with `:name` after it."""
    form = re.compile(r"tamis(\.[a-z_0-9]+)+:\w+|tamis(\.[a-z_0-9]+)+")
    rooms = {*ROOMS}
    strings = {
        node.value
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    return {text for text in strings if form.fullmatch(text) and text.split(".")[1] in rooms}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_only_the_table_of_openers_names_modules_below(path: Path) -> None:
    if str(path.relative_to(SOURCE)) in MAY_NAME_MODULES:
        return
    allowed = {*ROOMS[: ROOMS.index(room_of(path)) + 1]}
    below = {
        name for name in named_modules(path) if name.split(".")[1].split(":")[0] not in allowed
    }
    assert not below


def test_the_table_of_openers_is_seen_by_that_test() -> None:
    from tamis.registry import OPENERS

    table = {place for kinds in OPENERS.values() for place in kinds.values()}
    assert named_modules(SOURCE / "registry.py") >= table


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from tamis.cli.app import run; run(['--help']);"
        "heavy = {'numpy', 'numba', 'pyarrow', 'scipy', 'ir_measures', 'torch', 'jinja2'};"
        "heavy &= set(sys.modules);"
        "sys.exit(', '.join(sorted(heavy)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_opening_a_sieve_imports_nothing_that_trains_or_explains() -> None:
    code = (
        "import sys, tamis.fitting.sieve;"
        "heavy = ('tamis.training', 'tamis.labels', 'tamis.explain.result', 'tamis.backends._', "
        "'torch', 'jinja2');"
        "sys.exit(', '.join(name for name in sys.modules if name.startswith(heavy)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_base_install_does_not_need_torch() -> None:
    code = (
        "import sys; sys.modules['torch'] = None;"
        "from tamis.cli.app import run; sys.exit(run(['info', 'tamis:pydocs']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
