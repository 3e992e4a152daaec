"""The same fits again, with their plans fixed, to see that a change of the code changes no result.

    TAMIS_DATA=… TAMIS_MODELS=… python -m benchmarks.replay record --work FOLDER
    TAMIS_DATA=… TAMIS_MODELS=… python -m benchmarks.replay check --work FOLDER

`record` fits openbookqa and squad with 32 and with 512 judged queries and keeps each plan, what was
selected, and the measure of every system on every test query in `measured/replay`. `check` fits
again with the recorded plans, whatever the clock says, and compares: the same system selected, and
values equal to 1e-6.
"""

import argparse
import json
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

from tamis.collection.judgements import write_qrels
from tamis.collection.readers import open_collection
from tamis.collection.runs import read_run
from tamis.evaluation import evaluate
from tamis.fitting.job import run_fit
from tamis.fitting.query_splits import sample
from tamis.fitting.request import FitRequest
from tamis.fitting.sieve import Sieve

MEASURED = Path(__file__).parent / "measured" / "replay"
COLLECTIONS, SIZES, SEED = ("openbookqa", "squad"), (32, 512), 0
MEASURE, MINUTES, THREADS = "RR@10", 12, 2
CLOSE = 1e-6
"""How far a value of a query may be from the recorded one."""
NO_LIMIT = 24 * 3600.0
"""The time of a fit that is replayed: its plan says what is done."""


def fit_cell(
    collection: str, size: int, work: Path, data: Path, base: Path, plan: dict[str, Any] | None
) -> Sieve:
    """Fit a collection with so many judged queries; with a plan, by that plan."""
    qrels = open_collection(data / collection, on_error="skip").qrels
    judged = {"test": qrels["test"], "train": sample(qrels["train"], size, SEED)}
    name = f"{collection}-{size}{'' if plan is None else '-again'}"
    files = {split: str(work / f"{name}-{split}.txt") for split in judged}
    for split, path in files.items():
        write_qrels(judged[split], path, force=True)
    request = FitRequest(
        str(data / collection), work / f"{name}.sieve", str(base), measure=MEASURE, qrels=files,
        max_time=60.0 * MINUTES if plan is None else NO_LIMIT, on_error="skip", threads=THREADS,
        seed=SEED, learning_curve=False,
    )  # fmt: skip
    folder = work / f"{name}.sieve.fitting"
    if plan is not None and not folder.exists():
        folder.mkdir()
        (folder / "plan.json").write_text(json.dumps(plan))
        most = 5_000 * max(1.0, MINUTES / 30)  # what the recorded fit trained on at most
        (folder / "limits.json").write_text(json.dumps({"train_queries": round(most)}))
    sieve = run_fit(request, resume=folder.exists(), force=not folder.exists())[1]
    assert sieve is not None
    return sieve


def outcome_of(sieve: Sieve, data: Path, collection: str) -> dict[str, Any]:
    """What a fit selected, and the measure of every tested system on every test query."""
    qrels = open_collection(data / collection, on_error="skip").qrels["test"]
    runs = {path.stem: read_run(path) for path in sorted((sieve.path / "runs").glob("*.parquet"))}
    queries = next(iter(runs.values())).queries.ids
    done = evaluate(qrels.select(queries), runs, [MEASURE])
    values = {name: [round(v, 8) for v in done.values(name, MEASURE).tolist()] for name in runs}
    result, selection = sieve.result, sieve.manifest["selection"]
    return {
        "plan": sieve.manifest["plan"],
        "selected": result.selected,
        "selection": selection
        and {name: selection[name] for name in ("selected", "best", "queries")},
        "held_out": {one.name: one.held_out for one in result.systems},
        "queries": list(done.queries),
        "values": values,
    }


def compare(recorded: dict[str, Any], again: dict[str, Any]) -> list[str]:
    """What differs."""
    found = []
    if recorded["selected"] != again["selected"]:
        found.append(f"selected {again['selected']}, not {recorded['selected']}")
    if recorded["selection"] != again["selection"]:
        found.append(f"selection {again['selection']}, not {recorded['selection']}")
    for name, mean in recorded["held_out"].items():
        other = again["held_out"].get(name)
        if (mean is None) != (other is None) or (mean and abs(mean - (other or 0.0)) > 2e-4):
            found.append(f"{name} has {other} on held-out queries, not {mean}")
    if recorded["queries"] != again["queries"]:
        found.append("other test queries")
    for name, values in recorded["values"].items():
        other = again["values"].get(name)
        if other is None:
            found.append(f"{name} is missing")
            continue
        most = max((abs(one - two) for one, two in zip(values, other, strict=True)), default=0.0)
        if most > CLOSE:
            found.append(f"{name} differs by up to {most:.6f}")
    return found


def main() -> None:
    """Record, or check."""
    logging.basicConfig(level=logging.INFO, format="   %(message)s")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["record", "check"])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--only", help="one cell, such as squad-32")
    asked = parser.parse_args()
    data = Path(os.environ["TAMIS_DATA"])
    base = Path(os.environ["TAMIS_MODELS"]) / "minilm"
    asked.work.mkdir(parents=True, exist_ok=True)
    MEASURED.mkdir(parents=True, exist_ok=True)
    bad = False
    for size in SIZES:
        for collection in COLLECTIONS:
            name = f"{collection}-{size}"
            if asked.only not in (None, name):
                continue
            out = MEASURED / f"{name}.json"
            recorded = None if asked.what == "record" else json.loads(out.read_text())
            print(f"{time.strftime('%H:%M')} {name}", flush=True)
            plan = recorded["plan"] if recorded else None
            again = outcome_of(
                fit_cell(collection, size, asked.work, data, base, plan), data, collection
            )
            if recorded is None:
                out.write_text(json.dumps(again) + "\n")
                continue
            found = compare(recorded, again)
            bad |= bool(found)
            print("\n".join(found) if found else "the same", flush=True)
    sys.exit(bad)


if __name__ == "__main__":
    main()
