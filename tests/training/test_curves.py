"""Learning curves: cells are trained once, interrupted or not, and nothing leaks."""

from __future__ import annotations

import xml.etree.ElementTree as xml
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tamis.errors import InputError
from tamis.labels import Examples
from tamis.models import import_model
from tamis.training import Curves, Start, curves, learning_curves
from tamis.training.learning_curves import Cell, HeldOut, sample_examples
from tamis.training.loop import train
from tamis.training.recipe import Recipe
from tamis.types import Document, Qrels, Queries, Query, Run

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("accelerate", reason="accelerate is not installed")

DOCUMENTS = [
    *(Document(f"good{n}", f"the sieve {'drum ' * n}") for n in range(4)),
    *(Document(f"bad{n}", f"a fish {'net ' * n}") for n in range(4)),
]
QUERIES = Queries.of([Query(f"q{n:02}", f"sort {'flour grain'.split()[n % 2]}") for n in range(40)])
RECIPE = Recipe(
    "tiny",
    loss="margin",
    sampler="pairs",
    batch_size=4,
    epochs=16,
    epoch_rule="falling",
    learning_rate=5e-3,
    max_length=24,
    dropout=0.0,
)
TEST = [query.id for query in QUERIES if query.id < "q10"]


def examples() -> Examples:
    rows: list[Any] = []
    for query in QUERIES:
        if query.id not in TEST:
            rows += [(query.id, f"good{n}", 1.0, "positive") for n in range(4)]
            rows += [(query.id, f"bad{n}", 0.0, "pool") for n in range(4)]
    return Examples.of_rows(rows, source="gold").with_queries(QUERIES)


def candidates() -> HeldOut:
    """The bad documents stand first."""
    found = {name: {d.id: float(d.id.startswith("bad")) for d in DOCUMENTS} for name in TEST}
    qrels = Qrels.from_dict({name: {f"good{n}": 1 for n in range(4)} for name in TEST})
    return HeldOut(Run.from_dict(found).with_queries(QUERIES), qrels)


def run(work: Path, base: Path, sizes: tuple[int, ...] = (4, 16)) -> Curves:
    starts = {"pretrained": Start(base), "random": Start(base, random_weights=True)}
    return curves(
        starts, sizes, 2, examples=examples(), documents=DOCUMENTS, recipe=RECIPE,
        test=candidates(), work=work, threads=1,
    )  # fmt: skip


def test_cells_are_trained_once_and_go_on(tmp_path: Path, tiny_cross_encoder: Path) -> None:
    trained: list[int] = []
    real = train

    def counted(job: Any, **named: Any) -> Any:
        if len(trained) == 3:
            trained.append(0)
            raise KeyboardInterrupt
        trained.append(len(np.unique(job.examples.query)))
        return real(job, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learning_curves, "train", counted)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path, tiny_cross_encoder)
        found = run(tmp_path, tiny_cross_encoder)
    assert trained == [4, 4, 4, 0, 4, *[16] * 4]
    assert len(found.cells) == 8
    assert found.baseline == pytest.approx(0.2)
    assert found.spread("pretrained", 16)[0] > 0.9
    assert found.needed()["pretrained"] in (4, 16)
    drawn = xml.fromstring(found.picture())
    words = " ".join(drawn.itertext())
    assert "pretrained" in words and "random" in words and "BM25 0.200" in words
    assert (tmp_path / "curves.svg").read_text() == found.picture()
    again = run(tmp_path, tiny_cross_encoder)
    assert again.cells == found.cells


@pytest.mark.parametrize(("keep", "learnt"), [("last", 24), ("best", 21)])
def test_queries_are_held_out_only_where_a_state_is_chosen(
    keep: str,
    learnt: int,
    tmp_path: Path,
    tiny_cross_encoder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = [Query(each.id, " ".join(f"{each.id}{n}" for n in range(4))) for each in QUERIES]
    seen: list[int] = []

    def looked(job: Any, **named: Any) -> Any:
        seen.append(len(np.unique(job.examples.query)))
        assert (job.validation is None) == (keep == "last")
        raise KeyboardInterrupt

    monkeypatch.setattr(learning_curves, "train", looked)
    with pytest.raises(KeyboardInterrupt):
        curves(
            {"one": Start(tiny_cross_encoder)}, [24], 1, documents=DOCUMENTS, work=tmp_path,
            examples=examples().with_queries(Queries.of(asked)), test=candidates(),
            recipe=RECIPE.changed({"keep": keep}),
        )  # fmt: skip
    assert seen == [learnt]


def test_other_settings_are_not_mixed(tmp_path: Path, tiny_cross_encoder: Path) -> None:
    starts = {"one": Start(tiny_cross_encoder)}
    given: dict[str, Any] = {"examples": examples(), "documents": DOCUMENTS, "work": tmp_path}
    curves(starts, [], 1, recipe=RECIPE, test=candidates(), **given)
    other = RECIPE.changed({"learning_rate": "1e-4"})
    with pytest.raises(InputError, match="another recipe"):
        curves(starts, [], 1, recipe=other, test=candidates(), **given)
    test = candidates()
    judged = Qrels.from_dict({name: {"good1": 1} for name in TEST})
    asked = Queries.of([Query(each.id, f"{each.text} net") for each in QUERIES])
    for changed in (HeldOut(test.run, judged), HeldOut(test.run.with_queries(asked), test.qrels)):
        with pytest.raises(InputError, match="another test"):
            curves(starts, [], 1, recipe=RECIPE, test=changed, **given)
    random = {"one": Start(tiny_cross_encoder, random_weights=True)}
    with pytest.raises(InputError, match="another starts"):
        curves(random, [], 1, recipe=RECIPE, test=test, **given)


def test_of_nothing_learnt_only_a_start_that_ranks_is_tested(
    tmp_path: Path, tiny_cross_encoder: Path
) -> None:
    base = tmp_path / "base"
    import_model(tiny_cross_encoder, base)
    found = run(tmp_path / "work", base, sizes=(0,))
    assert [(cell.start, cell.size) for cell in found.cells] == [("pretrained", 0)]


def test_test_queries_are_not_learnt_from(tmp_path: Path) -> None:
    found = candidates()
    leak = Examples.of_rows([("q01", "good1", 1.0, "positive")], source="gold")
    with pytest.raises(InputError, match="'q01' is both learnt from and tested on"):
        curves({}, [4], 1, examples=leak, documents=DOCUMENTS, recipe=RECIPE, test=found,
               work=tmp_path)  # fmt: skip


def test_a_start_that_ranks_already_is_drawn_left_of_all_numbers() -> None:
    cells = [Cell("a", size, 0, size / 1000, 1.0) for size in (0, 8, 32, 512)]
    drawn = xml.fromstring(Curves(tuple(cells), 0.2, "RR@10").picture())
    markers = [each for each in drawn.iter() if each.get("class") == "marker"][:4]
    places = [str(each.get("transform")).removeprefix("translate(").split() for each in markers]
    steps = np.diff([float(x) for x, _ in places])
    assert steps[0] == pytest.approx(steps[1], abs=0.2) == pytest.approx(steps[2] / 2, abs=0.2)
    texts = [each.text for each in drawn.iter() if each.text in ("0", "8", "32", "512")]
    assert texts[-4:] == ["0", "8", "32", "512"]


def test_samples_differ_and_repeat() -> None:
    one = examples()
    names = [frozenset(sample_examples(one, 8, sample).query.tolist()) for sample in (0, 0, 1)]
    assert names[0] == names[1] != names[2]
    with pytest.raises(InputError, match="a sample of 31 queries"):
        sample_examples(one, 31, 0)


def test_what_is_needed_must_stay_above() -> None:
    cells = [Cell("a", size, 0, value, 1.0) for size, value in ((8, 0.3), (32, 0.1), (128, 0.4))]
    assert Curves(tuple(cells), 0.2, "RR@10").needed() == {"a": 128}
