"""Cold processes: how long a command takes from nothing to its answer, beside peers.

    TAMIS_DATA=... python -m benchmarks.start SIEVE --work FOLDER --rounds 7

SIEVE is a fitted sieve whose base model is a sentence-transformers folder. Every contestant is a
new process, one after another, round after round; medians of seconds by the clock and of processor
time, of all threads. Peers do the same: sentence-transformers loads the sieve's model, encodes the
query and multiplies it with saved embeddings; bm25s loads a saved index and searches. Both get ids
alone, tamis prints passages, too. `index, no kernels` has an empty folder of compiled kernels. A
peer that is not installed is left out (`pip install bm25s sentence-transformers`).
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from statistics import median

import numpy as np

from tamis import load_sieve

QUERY = "which animals eat plants"
ENCODER = """
import sys, numpy
from sentence_transformers import SentenceTransformer
query = SentenceTransformer(sys.argv[1], device="cpu").encode(sys.argv[3])
print(numpy.argsort(-(numpy.load(sys.argv[2]) @ query))[:10])
"""
BM25S = """
import sys, bm25s
index = bm25s.BM25.load(sys.argv[1])
print(index.retrieve(bm25s.tokenize(sys.argv[2], show_progress=False), k=10, show_progress=False))
"""
SAVE_BM25S = """
import sys, bm25s
index = bm25s.BM25()
index.index(bm25s.tokenize(open(sys.argv[1]).read().split("\\n"), show_progress=False))
index.save(sys.argv[2])
"""


def contestants(sieve: Path, collection: Path, work: Path) -> dict[str, list[str]]:
    """The command of each contestant; what peers load is saved first."""
    tamis = [sys.executable, "-m", "tamis"]
    commands = {
        "tamis --help": [*tamis, "--help"],
        "tamis search INDEX": [*tamis, "search", str(sieve / "index"), QUERY],
        "tamis search SIEVE": [*tamis, "search", str(sieve), QUERY],
        "tamis index, no kernels": [*tamis, "index", str(collection), "-o", str(work / "index")],
    }
    index = load_sieve(sieve).index
    if find_spec("sentence_transformers"):
        np.save(
            work / "rows.npy",
            np.concatenate([e.column("float32") for e in index.snapshot.embeddings]),
        )
        model = next(path for path in (sieve / "model", sieve / "encoder") if path.is_dir())
        arguments = [str(model), str(work / "rows.npy"), QUERY]
        commands["sentence-transformers"] = [sys.executable, "-c", ENCODER, *arguments]
    if find_spec("bm25s"):
        texts = "\n".join(" ".join(document.text.split()) for document in index)
        (work / "texts.txt").write_text(texts, "utf-8")
        folder = str(work / "bm25s")
        save = [sys.executable, "-c", SAVE_BM25S, str(work / "texts.txt"), folder]
        subprocess.run(save, check=True, capture_output=True)
        commands["bm25s"] = [sys.executable, "-c", BM25S, folder, QUERY]
    return commands


def seconds(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Seconds by the clock and of processor time that a new process takes."""
    start, before = time.perf_counter(), os.times()
    subprocess.run(command, env=environment, check=True, capture_output=True)
    after = os.times()
    used = after.children_user + after.children_system
    return time.perf_counter() - start, used - before.children_user - before.children_system


def main() -> None:
    """Run all contestants and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sieve", type=Path)
    parser.add_argument("--collection", default="openbookqa", help="a folder of TAMIS_DATA")
    parser.add_argument("--work", type=Path, required=True, help="a folder for what is saved")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--cold-rounds", type=int, default=2, help="rounds without kernels")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    collection = Path(os.environ["TAMIS_DATA"]) / options.collection
    commands = contestants(options.sieve, collection, options.work)
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for number in range(options.rounds + 1):  # the first is not counted
        for name, command in commands.items():
            if name.endswith("no kernels"):
                if number > options.cold_rounds:
                    continue
                kernels = options.work / "kernels"
                for folder in (kernels, options.work / "index"):
                    shutil.rmtree(folder, ignore_errors=True)
                result = seconds(command, {**environment, "NUMBA_CACHE_DIR": str(kernels)})
            else:
                result = seconds(command, environment)
            taken[name].extend([result] * (number > 0))
    print(f"{'seconds, medians':<26}clock  processor")
    for name, rounds in taken.items():
        clock, processor = (median(column) for column in zip(*rounds, strict=True))
        print(f"{name:<26}{clock:5.2f}  {processor:9.2f}")


if __name__ == "__main__":
    main()
