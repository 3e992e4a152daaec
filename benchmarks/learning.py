"""What training gives on real collections, by the commands a user would type.

    TAMIS_DATA=… TAMIS_MODELS=… python -m benchmarks.learning pseudo --work FOLDER
    TAMIS_DATA=… TAMIS_MODELS=… python -m benchmarks.learning infuse --work FOLDER
    TAMIS_DATA=… TAMIS_MODELS=… python -m benchmarks.learning made --work FOLDER
    TAMIS_DATA=… TAMIS_MODELS=… python -m benchmarks.learning words --work FOLDER [--samples 3]
    TAMIS_DATA=… TAMIS_MODELS=… python -m benchmarks.learning curves --work FOLDER [--samples 3]

`pseudo`: insuranceqa without labels, BM25 pseudo-labels, then 100 and 1,000 judged queries; from
the weights of all-MiniLM-L6-v2 and from random weights of its shape. `made`: the same, from queries
made of the documents. `infuse`: openbookqa, alignment scores and then judgements, against
judgements alone. `words`: insuranceqa, a FLAN-T5-small derivative distilled for writing titles with
2,000 samples by several pairs of words and by a fresh head, small encoders beside it. `curves`:
openbookqa, growing samples of judged queries from two starting points.

Every command is printed, and each has an output: what is there is not made again, so a work folder
that was interrupted goes on. Test queries are a seeded sample, 50 BM25 candidates each; BM25 is
tuned on training queries, and nothing is chosen on test queries. At the end a table has the
measure, the difference from tuned BM25, its 95% interval and the p-value of a paired t-test.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tamis.cli.app import run as tamis
from tamis.collection.judgements import read_qrels, write_qrels
from tamis.collection.readers import open_collection
from tamis.collection.runs import read_run
from tamis.evaluation import compare, evaluate
from tamis.labels import read_examples
from tamis.training import HeldOut, Start, resolve
from tamis.training import curves as learning_curves

TESTED = 300
DEPTH = "50"
MEASURE = "RR@10"
MINUTES = {"pseudo": 90, "made": 12, "infuse": 20, "words": 110, "curves": 15}
"""About how long a part takes on two quiet cores, a sample where there are samples."""
SIZES = (0, 8, 32, 128, 512)


@dataclass(frozen=True)
class Work:
    """A folder in which commands leave their outputs."""

    folder: Path
    collection: Path
    models: Path
    threads: str

    def path(self, name: str) -> str:
        """Where an output lies."""
        return str(self.folder / name)

    def do(self, out: str, *arguments: str) -> None:
        """Run a command unless its output is there; an unfinished training goes on."""
        if Path(self.path(out)).exists():
            return
        given = [*arguments, "-o", self.path(out)]
        if Path(self.path(out) + ".training").exists():
            given.append("--resume")
        print("$ tamis", " ".join(given), flush=True)
        began = time.monotonic()
        if tamis(given) != 0:
            sys.exit(f"failed: tamis {' '.join(given)}")
        self.note(out, time.monotonic() - began)

    def note(self, out: str, seconds: float) -> None:
        """Keep how long a command took."""
        path = self.folder / "seconds.json"
        known = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps({**known, out: round(seconds, 1)}, indent=1))

    def first_stage(self) -> None:
        """An index, BM25 tuned on training queries, and candidates of some test queries."""
        made = Path(self.path("index")).exists()
        self.do("index", "index", str(self.collection))
        collection = open_collection(self.collection)
        if not made:
            queries = self.collection / "queries.jsonl"
            train = self.collection / "qrels" / "train.tsv"
            given = ["tune", self.path("index"), str(queries), str(train), "-m", MEASURE]
            print("$ tamis", " ".join(given), "--sample 1000", flush=True)
            if tamis([*given, "--sample", "1000"]) != 0:
                sys.exit("failed: tamis tune")
        qrels = collection.qrels["test"]
        chosen = np.random.default_rng(0).permutation(len(qrels.queries))[:TESTED]
        kept = qrels.select(qrels.queries.select(np.sort(chosen)))
        if not Path(self.path("test.txt")).exists():
            write_qrels(kept, Path(self.path("test.txt")))
            asked = {query.id: query.text for query in collection.queries}
            lines = [json.dumps({"_id": name, "text": asked[name]}) for name in kept]
            Path(self.path("test.jsonl")).write_text("\n".join(lines) + "\n")
        self.do("bm25.parquet", "search", self.path("index"), self.path("test.jsonl"),
                "--top", DEPTH)  # fmt: skip

    def train(self, out: str, examples: str, base: str, recipe: str, *more: str) -> None:
        """Train a model on examples and re-rank the test candidates with it."""
        self.do(out, "train", self.path(examples), "-c", str(self.collection), "--base", base,
                "--recipe", recipe, "--threads", self.threads, *more)  # fmt: skip
        self.rerank(out, self.path(out))

    def rerank(self, out: str, model: str) -> None:
        """Re-rank the test candidates."""
        self.do(f"{out}.parquet", "rerank", self.path("bm25.parquet"), "-c", self.path("index"),
                "--model", model, "--depth", DEPTH, "--threads", self.threads)  # fmt: skip

    def table(self, names: Sequence[str]) -> None:
        """Every run that is there, against tuned BM25."""
        qrels = read_qrels(Path(self.path("test.txt")))
        there = [name for name in names if Path(self.path(f"{name}.parquet")).exists()]
        runs = {name: read_run(self.path(f"{name}.parquet")) for name in ("bm25", *there)}
        found = evaluate(qrels, runs, [MEASURE])
        tested = {each.run: each for each in compare(found, "bm25")}
        print(f"\n{self.collection.name}, {len(qrels)} test queries, {DEPTH} candidates each")
        print(f"{'':34}{MEASURE:>8}{'- BM25':>9}{'95% interval':>18}{'p':>9}{'minutes':>9}")
        seconds = json.loads(Path(self.path("seconds.json")).read_text())
        for name in runs:
            value, took = found.mean(name, MEASURE), seconds.get(name, 0) / 60
            if name == "bm25":
                print(f"{name:34}{value:8.4f}")
                continue
            each = tested[name]
            assert each.interval is not None and each.t_test.raw is not None
            low, high = each.interval.low, each.interval.high
            print(f"{name:34}{value:8.4f}{each.difference:+9.4f}{f'{low:+.4f} {high:+.4f}':>18}"
                  f"{each.t_test.raw:9.2g}{took:9.1f}")  # fmt: skip


def pseudo(work: Work, samples: int) -> None:
    """Pseudo-labels, then judgements, from two starts."""
    recipe, base = "monobert-pairwise-small", str(work.models / "minilm")
    given = ["-c", str(work.collection), "--index", work.path("index"), "--split", "train"]
    work.do("pseudo.examples", "label", "pseudo", *given, "--sample", "3000")
    for count in ("100", "1000"):
        work.do(f"gold-{count}.examples", "label", "gold", *given, "--sample", count, "--seed", "1")
    work.do("pseudo-12000.examples", "label", "pseudo", *given, "--sample", "12000")
    work.rerank("bi-encoder", base)
    short = ("--set", "max_length=192", "--set", "document_tokens=none")
    steps = {"100": (), "1000": ("--set", "steps=250")}
    for start, more in (("minilm", ()), ("random", ("--random-weights",))):
        first = f"{start}-pseudo"
        work.train(first, "pseudo.examples", base, recipe, *short, "--set", "steps=250", *more)
        for count, said in steps.items():
            out, gold = f"{first}-gold-{count}", f"gold-{count}.examples"
            work.train(out, gold, work.path(first), recipe, *short, *said)
    work.train("minilm-pseudo-12000", "pseudo-12000.examples", base, recipe, *short,
               "--set", "steps=750")  # fmt: skip
    ends = ("pseudo", "pseudo-gold-100", "pseudo-gold-1000")
    names = [f"{start}-{end}" for start in ("minilm", "random") for end in ends]
    work.table(["bi-encoder", "minilm-pseudo-12000", *names])


def made(work: Work, samples: int) -> None:
    """Training on queries made from documents alone."""
    base, recipe = str(work.models / "minilm"), "monobert-pairwise-small"
    work.do("made.examples", "label", "pseudo", "-c", work.path("index"), "--from-documents",
            "--num-queries", "3000", "--show", "50")  # fmt: skip
    work.train("minilm-made", "made.examples", base, recipe, "--set", "steps=250",
               "--set", "max_length=192", "--set", "document_tokens=none")  # fmt: skip
    work.table(["minilm-made"])


def infuse(work: Work, samples: int) -> None:
    """Alignment scores and then judgements, against judgements alone."""
    base, gold = str(work.models / "minilm"), "gold.examples"
    given = ["-c", str(work.collection), "--index", work.path("index"), "--split", "train"]
    given += ["--depth", "50", "--seed", "1"]
    vectors = f"alignment:{work.models / 'glove50'}"
    work.do("scores.examples", "label", "weak", *given, "--model", vectors, "--sample", "500")
    work.do(gold, "label", "gold", *given, "--sample", "200")
    names = []
    for start, more in (("minilm", ()), ("random", ("--random-weights",))):
        scores, alone = f"{start}-alignment", f"{start}-gold"
        work.train(scores, "scores.examples", base, "infuse-scores-small", *more)
        work.train(alone, gold, base, "infuse-gold-small", *more)
        work.train(f"{scores}-gold", gold, work.path(scores), "infuse-gold-small")
        names += [scores, alone, f"{scores}-gold"]
    work.table(names)


def words(work: Work, samples: int) -> None:
    """The T5 by pairs of words and by a fresh head; small encoders beside it."""
    given = ["-c", str(work.collection), "--index", work.path("index"), "--split", "train"]
    names = []
    for sample in range(samples):
        examples, seed = f"gold-{sample}.examples", str(sample)
        work.do(examples, "label", "gold", *given, "--negatives", "1", "--sample", "1500",
                "--seed", seed)  # fmt: skip
        settings: Mapping[str, Sequence[str]] = {
            "true-false": (),
            "fresh-head": ("--set", "fresh_head=true"),
            "false-true": ("--set", "words=reverse"),
            "ab-de": ("--set", "words=subwords"),
        }
        for name, more in settings.items():
            out = f"t5-{name}-{sample}"
            work.train(out, examples, str(work.models / "t5"), "few-t5-small", "--no-validation",
                       "--set", "max_length=160", "--seed", seed, *more)  # fmt: skip
            names.append(out)
        for base in ("minilm", "granite"):
            out = f"{base}-{sample}"
            work.train(out, examples, str(work.models / base), "few-bert-tuned-small",
                       "--no-validation", "--set", "max_length=160", "--seed", seed)  # fmt: skip
            names.append(out)
    work.table(names)


def curves(work: Work, samples: int) -> None:
    """The measure by the number of judged queries, from the base and from pseudo-labels."""
    base, recipe = work.models / "minilm", "monobert-pairwise-small"
    given = ["-c", str(work.collection), "--index", work.path("index"), "--split", "train"]
    work.do("pseudo.examples", "label", "pseudo", *given)
    work.do("gold.examples", "label", "gold", *given, "--seed", "1")
    work.train("pseudo", "pseudo.examples", str(base), recipe, "--set", "steps=250")
    collection = open_collection(work.collection)
    run = read_run(work.path("bm25.parquet")).with_queries(collection.queries)
    found = learning_curves(
        {"MiniLM": Start(base), "pseudo-labels": Start(work.path("pseudo"))},
        SIZES,
        samples,
        examples=read_examples(work.path("gold.examples")).with_queries(collection.queries),
        documents=collection,
        recipe=resolve(recipe, {"keep": "last"}),
        test=HeldOut(run, read_qrels(Path(work.path("test.txt"))), MEASURE, int(DEPTH)),
        work=Path(work.path("cells")),
        threads=int(work.threads),
        log=lambda words: print(words, flush=True),
    )
    print(f"\n{work.collection.name}, {MEASURE}, mean (lowest to highest) of {samples} samples")
    print(f"tuned BM25 {found.baseline:.4f}; passed from so many queries on: {found.needed()}")
    for start in dict.fromkeys(cell.start for cell in found.cells):
        for size in found.sizes(start):
            mean, low, high = found.spread(start, size)
            print(f"{start:16}{size:6,}{mean:8.4f} ({low:.4f} to {high:.4f})")


PARTS: Mapping[str, tuple[str, Callable[[Work, int], None]]] = {
    "pseudo": ("insuranceqa", pseudo),
    "made": ("insuranceqa", made),
    "infuse": ("openbookqa", infuse),
    "words": ("insuranceqa", words),
    "curves": ("openbookqa", curves),
}


def main(arguments: Sequence[str] = ()) -> None:
    """Run a part and print its table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--samples", type=int, default=1)
    parser.add_argument("--threads", default="2")
    given = parser.parse_args(arguments)
    data, models = os.environ.get("TAMIS_DATA"), os.environ.get("TAMIS_MODELS")
    if not data or not models:
        print("learning: skipped, TAMIS_DATA and TAMIS_MODELS are not set")
        return
    name, part = PARTS[given.part]
    minutes = MINUTES[given.part] * (given.samples if given.part in ("words", "curves") else 1)
    print(f"about {minutes / 60:.1f} hours on two quiet cores", flush=True)
    folder = given.work / given.part
    folder.mkdir(parents=True, exist_ok=True)
    work = Work(folder, Path(data) / name, Path(models), given.threads)
    work.first_stage()
    part(work, given.samples)


if __name__ == "__main__":
    main(sys.argv[1:])
