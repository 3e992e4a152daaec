"""You's passage re-ranking study rebuilt: tables 2 and 4 to 7, figure 1, and why its models lose.

    TAMIS_DATA=... python -m benchmarks.classical_rankers --work FOLDER [--threads 2] [CELL ...]

Trains on the re-ranking table of 4,590 training queries of insuranceqa, and ranks the candidates of
the 1,100 validation queries, which nothing is selected on. What a cell needs is made once in the
work folder: tables, word vectors, runs. Without cells, all are run in the order below, then the
results are printed; `results` only prints those that are there.
"""

import argparse
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from benchmarks.reranking_tables import insuranceqa, write_tables
from tamis.collection.base import Faults
from tamis.collection.candidate_table import open_reranking
from tamis.collection.readers import open_collection
from tamis.collection.runs import read_run, write_run
from tamis.evaluation import evaluate
from tamis.evaluation.tables import markdown
from tamis.pages.charts import Line, Point, line_panel
from tamis.pages.svg import WIDE, stacked_file
from tamis.pipeline.fuse import scores_in
from tamis.rankers._folder import rescored
from tamis.rankers.features import FeatureSource
from tamis.rankers.lambdamart import LambdaMART, LambdaMARTSettings, search_settings
from tamis.rankers.logistic_regression import LogisticRegression, LogisticRegressionSettings
from tamis.rankers.neural_ranker import NeuralRanker, NeuralRankerSettings
from tamis.rankers.text_embeddings import TextEmbedder
from tamis.scorers.word_vector_trainer import FastText, train_vectors
from tamis.search import Index
from tamis.types import Qrels, Run

LEARNING_RATES = (30.0, 10.0, 3.0, 1.0, 0.3, 0.1)
STUDY_RATE = 1.0
DIMENSIONS = 300
MEASURES = [f"{name}@{cutoff}" for name in ("AP_found", "nDCG_uncut") for cutoff in (3, 10, 100)]
STANDARD_MEASURES = ["AP", "nDCG@10", "RR@10"]
HELD_OUT_QUERIES = 459
"""Training queries on which the neural ranker's early stopping looks."""
NEURAL_EPOCHS, NEURAL_PATIENCE = 12, 2
"""At most so many epochs: one takes most of a minute of processor time."""
LEXICAL_COLUMN = "bm25"


@dataclass(frozen=True)
class Data:
    """Candidates, judgements and embeddings, in a work folder."""

    work: Path
    threads: int | None = None

    @cached_property
    def tables(self) -> Mapping[str, Path]:
        """The two re-ranking tables."""
        return write_tables(self.work)

    @cached_property
    def index(self) -> Index:
        """The index whose first thousand documents are the candidates."""
        self.tables  # noqa: B018  written with the tables
        return Index.open(self.work / "insuranceqa.index")

    @cached_property
    def embedder(self) -> TextEmbedder:
        """FastText vectors with subwords, trained on the collection's documents."""
        folder = self.work / "vectors"
        if not folder.exists():
            documents = open_collection(insuranceqa()).documents
            settings = FastText(dimensions=DIMENSIONS)
            TextEmbedder(train_vectors(documents, settings, subwords=True)).save(folder)
        return TextEmbedder.read(folder)

    def candidates(self, split: str) -> tuple[Run, Qrels]:
        """A table's candidates with BM25's score as a column, and its relevancies."""
        path = self.work / f"{split}.parquet"
        if not path.exists():
            run = open_reranking(self.tables[split], Faults()).candidates()
            bm25 = self.index.bm25().search(run.queries, 1000)
            write_run(run.with_extra(**{LEXICAL_COLUMN: scores_in(bm25, run)}), path)
        collection = open_collection(insuranceqa())
        run = read_run(path)
        queries = collection.queries.select(run.queries.ids.positions_in(collection.queries.ids))
        return run.with_queries(queries), collection.qrels[split].select(run.queries.ids)

    @cached_property
    def train(self) -> tuple[Run, Qrels]:
        """The training queries."""
        return self.candidates("train")

    @cached_property
    def dev(self) -> tuple[Run, Qrels]:
        """The validation queries."""
        return self.candidates("dev")

    def features(self, lexical: bool = False) -> FeatureSource:
        """600 numbers, or those and BM25's score."""
        columns = (LEXICAL_COLUMN,) if lexical else ()
        return FeatureSource(self.embedder, self.index, columns)

    def record(self, name: str, **facts: object) -> None:
        """Keep what a cell says of its training."""
        (self.work / f"{name}.json").write_text(json.dumps(facts, indent=1) + "\n", "utf-8")

    def recorded(self, name: str) -> dict[str, object]:
        """What a cell has recorded; nothing if it was not run."""
        path = self.work / f"{name}.json"
        return dict(json.loads(path.read_text("utf-8"))) if path.exists() else {}


def bm25(data: Data) -> Run:
    """The candidates by BM25."""
    run, _ = data.dev
    return rescored(run, run.extra[LEXICAL_COLUMN])


def no_order(data: Data) -> Run:
    """The candidates in an order by chance."""
    run, _ = data.dev
    return rescored(run, np.random.default_rng(0).random(len(run.doc), np.float32))


def cosine(data: Data) -> Run:
    """The candidates by the cosine of the averaged vectors, which nothing is learnt for."""
    run, _ = data.dev
    features = replace(data.features(), embedder=replace(data.embedder, normalise=True)).of(run)
    products = [
        features.passages[features.passage[start:end]] @ features.queries[number]
        for number, (start, end) in enumerate(zip(run.offsets, run.offsets[1:], strict=False))
    ]
    return rescored(run, np.concatenate(products))


def logistic_regression(data: Data, lexical: bool = False) -> Run:
    """At the study's learning rate; the curves of all rates are recorded."""
    features = data.features(lexical)
    losses = {}
    for rate in (STUDY_RATE,) if lexical else LEARNING_RATES:
        settings = LogisticRegressionSettings(learning_rate=rate)
        ranker = LogisticRegression.fit(*data.train, features, settings)
        losses[rate] = list(ranker.losses)
        print(f"  learning rate {rate:g}: loss {ranker.losses[-1]:.4f}", flush=True)
        if rate == STUDY_RATE:
            ranked = ranker(data.dev[0])
    data.record(_cell_name("logistic-regression", lexical), losses=losses)
    return ranked


def lambdamart(data: Data, lexical: bool = False) -> Run:
    """With the best settings of the grid, searched on the 600 numbers."""
    name = "lambdamart"
    features, settings = data.features(lexical), LambdaMARTSettings(threads=data.threads)
    if lexical:
        chosen = data.recorded(name)["selected"]
        settings = replace(settings, **dict(chosen))  # type: ignore[call-overload]
    else:
        points = search_settings(*data.train, features, settings=settings, on_point=_print_point)
        settings = points[0].settings
        tried = [{**asdict(point.settings), "folds": point.folds} for point in points]
        data.record(name, selected=asdict(settings), points=tried)
    return LambdaMART.fit(*data.train, features, settings)(data.dev[0])


def neural_ranker(data: Data, margin: float, lexical: bool = False) -> Run:
    """Stopped early by the loss on held-out training queries."""
    run, qrels = data.train
    order = np.random.default_rng(0).permutation(len(run))
    held_out, learnt = (
        run.queries.ids.select(np.sort(part))
        for part in (order[:HELD_OUT_QUERIES], order[HELD_OUT_QUERIES:])
    )
    ranker = NeuralRanker.fit(
        run.select(learnt), qrels.select(learnt), data.features(lexical),
        NeuralRankerSettings(margin=margin, epochs=NEURAL_EPOCHS, patience=NEURAL_PATIENCE),
        validation=(run.select(held_out), qrels.select(held_out)),
        on_epoch=lambda epoch, loss: print(f"  epoch {epoch}: loss {loss:.4f}", flush=True),
    )  # fmt: skip
    ranked = ranker(data.dev[0])
    data.record(
        _cell_name(f"neural-ranker-{margin:g}", lexical),
        losses=ranker.losses,
        validations=[asdict(one) for one in ranker.validations],
        score_range=[float(ranked.score.min()), float(ranked.score.max())],
    )
    return ranked


def _cell_name(name: str, lexical: bool) -> str:
    return f"{name}+bm25" if lexical else name


def _print_point(point: object) -> None:
    print(f"  {point}", flush=True)


CELLS: Mapping[str, Callable[[Data], Run]] = {
    "bm25": bm25,
    "no-order": no_order,
    "cosine": cosine,
    "logistic-regression": logistic_regression,
    "logistic-regression+bm25": lambda data: logistic_regression(data, lexical=True),
    "lambdamart": lambdamart,
    "lambdamart+bm25": lambda data: lambdamart(data, lexical=True),
    "neural-ranker-0": lambda data: neural_ranker(data, 0.0),
    "neural-ranker-0.1": lambda data: neural_ranker(data, 0.1),
    "neural-ranker-0.1+bm25": lambda data: neural_ranker(data, 0.1, lexical=True),
}
"""What is compared, in the order in which it is run."""


def run_cell(data: Data, name: str) -> None:
    """Rank by one system and keep its run, unless it is there."""
    path = data.work / "runs" / f"{name}.parquet"
    if path.exists():
        return
    path.parent.mkdir(exist_ok=True)
    print(name, flush=True)
    start = time.perf_counter()
    ranked = CELLS[name](data)
    write_run(ranked.with_extra(), path)
    print(f"  {time.perf_counter() - start:.0f} s", flush=True)


def print_results(data: Data) -> None:
    """The tables, with the test against BM25, and figure 1."""
    paths = {name: data.work / "runs" / f"{name}.parquet" for name in CELLS}
    runs = {name: read_run(path) for name, path in paths.items() if path.exists()}
    evaluation = evaluate(data.dev[1], runs, [*MEASURES, *STANDARD_MEASURES])
    comparisons = list(evaluation.compare("bm25")) if len(runs) > 1 else []
    print(markdown(evaluation, comparisons))
    curves = data.recorded("logistic-regression").get("losses")
    if isinstance(curves, dict):
        (data.work / "figure1.svg").write_text(loss_curves(curves), "utf-8")


def loss_curves(losses: Mapping[str, list[float]]) -> str:
    """Figure 1: the training loss by epoch, a line a learning rate."""
    lines = [
        Line(f"{float(rate):g}", [Point(n + 1, loss) for n, loss in enumerate(values)], False)
        for rate, values in losses.items()
    ]
    panel = line_panel(lines, x_name="epoch", y_name="training loss", frame=WIDE)
    title = "Training loss of logistic regression by learning rate"
    return stacked_file(title, [panel], [line.name for line in lines])


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--threads", type=int)
    parser.add_argument("cells", nargs="*", choices=[[], *CELLS, "results"])
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    data = Data(options.work, options.threads)
    for name in options.cells or CELLS:
        if name != "results":
            run_cell(data, name)
    print_results(data)


if __name__ == "__main__":
    main()
