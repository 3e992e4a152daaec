"""Each room imports only rooms that stand above it, and importing does nothing costly."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import tamis

SOURCE = Path(tamis.__file__).parent
ROOMS = """
errors terminal cores _jit types durable manifest evaluation text collection splits search scorers
pipeline models labels label training rankers tasks explain fit studies adapters serve cli testing
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


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from tamis.cli.app import run; run(['--help']);"
        "heavy = {'numpy', 'numba', 'pyarrow', 'scipy', 'ir_measures', 'torch'} & set(sys.modules);"
        "sys.exit(', '.join(sorted(heavy)) or 0)"
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
