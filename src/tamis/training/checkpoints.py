"""Where training stands, on disk: folders that are written whole, from which it goes on.

    OUT.training/plan.json           what is being trained; going on must not change it
    OUT.training/step-00000100/      the state after 100 steps
        model/                       a model folder like any other
        optimizer.pt  history.json   what the next step needs, and what happened so far
        loss_scale.json              in float16 only

The last checkpoint is kept and, where another is the best so far, that one too. Random numbers are
drawn anew from the seed and the number of the step, so nothing of them is kept.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import xxhash

from tamis.durable import new_file, new_folder
from tamis.errors import DamagedError, InputError, OutputError, require
from tamis.training.trainable import Trainable

WORK_SUFFIX = ".training"
PLAN_FILE = "plan.json"
LOSS_SCALE_FILE = "loss_scale.json"


@dataclass(frozen=True)
class Check:
    """A validation: after how many steps, the measure, and its interval if there is one."""

    step: int
    value: float
    interval: tuple[float, float] | None = None


@dataclass
class History:
    """The loss of every step and the validations between them."""

    losses: list[float] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    texts: int = 0
    truncated_tokens: int = 0
    """How many texts had to be truncated."""
    seconds: float = 0.0
    checked: float = 0.0
    """Seconds of learning, and of validating and writing."""

    @property
    def step(self) -> int:
        """How many steps were taken."""
        return len(self.losses)

    def best(self) -> Check | None:
        """The first of the best validations."""
        return max(self.checks, key=lambda check: (check.value, -check.step), default=None)

    def since_best(self) -> int:
        """How many validations there were since the best."""
        best = self.best()
        return 0 if best is None else len([c for c in self.checks if c.step > best.step])


def work_folder(out: Path) -> Path:
    """Where the training of a model is kept until it is done."""
    return out.with_name(out.name + WORK_SUFFIX)


def begin(folder: Path, plan: Mapping[str, Any], *, resume: bool, force: bool) -> bool:
    """Make the folder of a training, or find the one to go on with; whether it is the latter."""
    if folder.exists() and force and not resume:
        shutil.rmtree(folder)
    if not folder.exists():
        folder.mkdir()
        _write_json(folder / PLAN_FILE, plan)
        return False
    if not resume:
        raise OutputError(
            f"{folder} holds a training that was not finished",
            hint="--resume goes on with it, --force begins anew",
        )
    path = folder / PLAN_FILE
    if not path.exists():
        _write_json(path, plan)
        return False
    saved_plan = _read_json(path)
    changed = [name for name in plan if saved_plan.get(name) != json.loads(json.dumps(plan[name]))]
    if changed:
        name, was, now = changed[0], saved_plan.get(changed[0]), plan[changed[0]]
        if isinstance(was, dict) and isinstance(now, Mapping):  # a recipe: which part of it
            name = next(
                field for field in now if was.get(field) != json.loads(json.dumps(now[field]))
            )
            was, now = was.get(name), now[name]
        raise InputError(
            f"{folder} was begun with another {name}: {_short(was)}, not {_short(now)}",
            hint="give the same command, or begin anew with --force",
        )
    return True


def remove(folder: Path) -> None:
    """Remove a training that is done, its plan last: killed on the way, it is known as done."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != PLAN_FILE:
            path.unlink()
    shutil.rmtree(folder)


def read_plan(folder: Path) -> dict[str, Any]:
    """The plan of a training that was begun; empty where there is none."""
    path = folder / PLAN_FILE
    return _read_json(path) if path.is_file() else {}


def digest_of(plan: Mapping[str, Any]) -> str:
    """What a plan is known by.

    >>> digest_of({"steps": 3}) == digest_of({"steps": 3}) != digest_of({"steps": 4})
    True
    """
    return xxhash.xxh3_128_hexdigest(json.dumps(plan, sort_keys=True).encode())


def save(folder: Path, model: Trainable, optimizer: Any, history: History) -> Path:
    """Write a checkpoint, whole or not at all, and remove those that are no longer needed."""
    torch = require("torch")
    path = folder / f"step-{history.step:08}"
    broken = (OSError, RuntimeError, require("safetensors").SafetensorError)
    try:
        with new_folder(path, force=True) as temporary_folder:
            model.save(temporary_folder / "model")
            torch.save(optimizer.state_dict(), temporary_folder / "optimizer.pt")
            if state := model.precision.state():
                _write_json(temporary_folder / LOSS_SCALE_FILE, state)
            _write_json(temporary_folder / "history.json", asdict(history))
    except broken as error:
        raise OutputError(
            f"cannot write {path}: {error}",
            hint="is the disk full? make room, then --resume goes on from the checkpoint before",
        ) from error
    best = history.best()
    steps_to_keep = {history.step, best.step if best else history.step}
    for other in steps(folder):
        if other not in steps_to_keep:
            shutil.rmtree(folder / f"step-{other:08}")
    return path


def steps(folder: Path) -> list[int]:
    """The steps after which there is a checkpoint, in order."""
    return sorted(int(path.name.removeprefix("step-")) for path in folder.glob("step-????????"))


def model_at(folder: Path, step: int) -> Path:
    """The model folder of a checkpoint."""
    return folder / f"step-{step:08}" / "model"


def read_loss_scale(folder: Path, step: int) -> dict[str, Any]:
    """How a loss in float16 was scaled after a step; empty where none was."""
    path = folder / f"step-{step:08}" / LOSS_SCALE_FILE
    return _read_json(path) if path.is_file() else {}


def read_history(folder: Path, step: int) -> History:
    """What had happened up to a checkpoint."""
    return history_in(folder / f"step-{step:08}" / "history.json")


def history_in(path: Path) -> History:
    """The history in a file."""
    record = _read_json(path)
    try:
        checks = [_check_of(**check) for check in record.pop("checks")]
        return History(**record, checks=checks)
    except (TypeError, KeyError) as error:
        raise DamagedError(
            f"{path} is not what was written: {error}",
            hint="remove the folder it is in, or begin anew: --force",
        ) from None


def _check_of(step: int, value: float, interval: list[float] | None = None) -> Check:
    return Check(step, value, None if interval is None else (interval[0], interval[1]))


def load_optimizer(folder: Path, step: int, optimizer: Any) -> None:
    """Put an optimizer into the state it had."""
    torch = require("torch")
    path = folder / f"step-{step:08}" / "optimizer.pt"
    try:
        optimizer.load_state_dict(torch.load(path, weights_only=True))
    except (OSError, RuntimeError, ValueError, EOFError) as error:
        raise DamagedError(
            f"{path} cannot be read: {error}", hint="remove that folder: the one before is used"
        ) from None


def _write_json(path: Path, value: Any) -> None:
    with new_file(path, force=True) as temporary_path:
        temporary_path.write_text(json.dumps(value, ensure_ascii=False), "utf-8")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise DamagedError(f"{path} cannot be read: {error}", hint="begin anew: --force") from None
    if not isinstance(record, dict):
        raise DamagedError(f"{path} does not hold a record", hint="begin anew: --force")
    return record


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "…"
