"""A cascade against scoring everything: agreement with the full top 10 over speed.

    TAMIS_DATA=... TAMIS_MODELS=... python -m benchmarks.cascade --work FOLDER [--picture FILE]

The cross-encoder `ce` on trec-dl19 (43 queries, 100 passages each by BM25), one thread, processor
time of the whole pass. Everything is fitted on 40 development queries of wikiqa with BM25
candidates of its own, without judgements. The cascade is run; orders that a fixed number of
documents is kept of (BM25, the bi-encoder, the first 32 tokens, an early layer with a linear head)
are timed on their own, and a kept document costs its share of the tokens. `--work` keeps indexes
and figures, so that what was interrupted goes on; delete it to measure again.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.cascade_orders import measure_orders, quality, setting
from tamis.pipeline.cascade import calibrate, cascade

AGREEMENTS = (0.8, 0.9, 0.95, 0.98)


def measure_cascade(places: dict[str, Path]) -> list[dict[str, Any]]:
    """Points of the cascade, run as it is, once each after scoring everything once."""
    wikiqa, here = setting("wikiqa", **places), setting("trec-dl19", **places)
    model = calibrate(wikiqa.full, wikiqa.index, wikiqa.encoder, wikiqa.run)
    here.full(here.run.top(1))
    everything, processor, clock = timed(lambda: here.full(here.run))
    points = []
    for wanted in AGREEMENTS:
        stage = cascade(here.full, here.index, here.encoder, model, agreement=wanted)
        done, seconds, waited = timed(partial(stage.cascade, here.run))
        point = {
            "wanted": wanted,
            "kept": float((done.run.extra["passage"] >= 0).sum()) / len(here.run),
            "times": processor / seconds,
            "times by the clock": clock / waited,
            "expected": 1 - float(done.missed.mean()) / 10,
            **quality(places["data"], everything, done.run),
        }
        points.append(point)
        print(json.dumps({**point, "seconds": seconds, "full": processor}), flush=True)
    return points


def timed(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """What some work gives, its processor seconds and its seconds by the clock."""
    start, clock = time.process_time(), time.perf_counter()
    made = work()
    return made, time.process_time() - start, time.perf_counter() - clock


def kept_figures(path: Path, measure: Callable[[], Any]) -> Any:
    """Figures from a file, measured and written there if it is not there."""
    if not path.exists():
        path.write_text(json.dumps(measure()))
    return json.loads(path.read_text())


def show(curves: dict[str, list[dict[str, Any]]]) -> None:
    """Print a row a point."""
    for name, points in curves.items():
        print(f"\n{name}")
        for point in points:
            print(
                f"  {point['kept']:5.1f} scored  {point['times']:5.2f} times  agreement "
                f"{point['agreement']:.3f}  nDCG@10 {point['change']:+.4f}"
            )


def draw(curves: dict[str, list[dict[str, Any]]], picture: Path) -> None:
    """Agreement over speed."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.4))
    for name, points in curves.items():
        style = {"linewidth": 2.4, "color": "black"} if name == "cascade" else {"linewidth": 1}
        times, agreement = ([point[what] for point in points] for what in ("times", "agreement"))
        axes.plot(times, agreement, marker="o", markersize=3, label=name, **style)
    axes.plot([2], [0.9], marker="*", markersize=12, color="red", linestyle="none", label="aim")
    axes.set_xlabel("times as fast as scoring all 100")
    axes.set_ylabel("agreement of the top 10")
    axes.set_xlim(0.4, 4)
    axes.set_ylim(0.5, 1.01)
    axes.grid(True, alpha=0.25)
    axes.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(picture, metadata={"Date": None})


def main() -> None:
    """Measure what is not measured yet, print it and draw it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=Path, default=Path("cascade.work"))
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--part", choices=("cascade", "orders"), action="append")
    arguments, _ = parser.parse_known_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    names = ("TAMIS_DATA", "TAMIS_MODELS")
    data, models = (Path(os.environ[name]) for name in names)
    places = {"data": data, "models": models, "work": arguments.work}
    curves: dict[str, Any] = {}
    wanted = arguments.part or ("cascade", "orders")
    if "cascade" in wanted:
        file = arguments.work / "cascade.json"
        curves["cascade"] = kept_figures(file, partial(measure_cascade, places))
    if "orders" in wanted:
        curves |= kept_figures(arguments.work / "orders.json", partial(measure_orders, places))
    show(curves)
    if arguments.picture:
        draw(curves, arguments.picture)


if __name__ == "__main__":
    main()
