"""Each cause of a loss is undone: on queries made to have one cause each, worked out by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.pages.page import Page, assert_inside

from tamis.cli.app import run as tamis_command
from tamis.cli.explain_show import show_losses
from tamis.errors import InputError
from tamis.explain.causes import LossInputs, at_greatest_length, fuse_lexical_score
from tamis.explain.losses import find_losses
from tamis.explain.losses_page import finding, losses_page
from tamis.search import Index
from tamis.types import Document, Pairs, Qrels, Queries, Query, Run, Scores
from tamis.types.pipeline import Scale

READS = 150
"""How many words the model reads."""


class Praise:
    """Scores a text by the words good (1) and fair (.5) among its first 150, whatever is asked."""

    scale: Scale = "regression"

    def score(self, pairs: Pairs) -> Scores:
        words = [pairs.texts[text].split() for _, text in pairs.index.tolist()]
        values = [each[:READS].count("good") + each[:READS].count("fair") / 2 for each in words]
        truncated = [max(0, len(each) - READS) for each in words]
        return Scores(np.array(values, np.float32), np.array(truncated, np.int32))


TEXTS = {
    "t1": "word " * 180 + "good", "t2": "fair",
    "l1": "fair", "l2": "nothing", "l3": "good",
    "u1": "fair", "u2": "nothing", "u3": "good",
    "m1": "good", "m2": "fair",
    "n1": "nothing", "n2": "good",
    "w1": "good", "w2": "fair",
}  # fmt: skip
RUN = {
    "truncated": {"t2": 0.5, "t1": 0.0},
    "lexical": {"l3": 1.0, "l1": 0.5, "l2": 0.0},
    "unjudged": {"u3": 1.0, "u1": 0.5, "u2": 0.0},
    "missing": {"m2": 0.5},
    "unexplained": {"n2": 1.0, "n1": 0.0},
    "better": {"w1": 1.0, "w2": 0.5},
}
BASELINE = {
    "truncated": {"t1": 9.0, "t2": 1.0},
    "lexical": {"l1": 9.0, "l2": 1.0, "l3": 0.0},
    "unjudged": {"u1": 9.0, "u3": 8.9, "u2": 0.0},
    "missing": {"m1": 9.0, "m2": 1.0},
    "unexplained": {"n1": 9.0, "n2": 1.0},
    "better": {"w2": 9.0, "w1": 1.0},
}
QRELS = {
    "truncated": {"t1": 1, "t2": 0},
    "lexical": {"l1": 1, "l2": 0, "l3": 0},
    "unjudged": {"u1": 1, "u2": 0},
    "missing": {"m1": 1, "m2": 0},
    "unexplained": {"n1": 1, "n2": 0},
    "better": {"w1": 1, "w2": 0},
}
QUERIES = Queries.of(Query(name, f"a {name} query") for name in RUN)


# of the run's documents, in the order of RUN
LEXICAL = {"truncated": (1, 9), "lexical": (0, 9, 1), "unjudged": (8.9, 9, 0), "missing": (1,)}
LEXICAL |= {"unexplained": (9, 1), "better": (1, 9)}


def inputs() -> LossInputs:
    run = Run.from_dict(RUN).with_queries(QUERIES)
    column = {
        (query, name): score
        for query, scores in LEXICAL.items()
        for name, score in zip(RUN[query], scores, strict=True)
    }
    rows = [column[query, name] for query in run for name in run[query].ids]
    run = run.with_extra(lexical_score=np.array(rows, np.float32))
    documents = {name: Document(name, text) for name, text in TEXTS.items()}
    return LossInputs(run, Run.from_dict(BASELINE), Qrels.from_dict(QRELS), documents, Praise())


def test_a_query_counts_under_the_cause_that_was_made_for_it() -> None:
    found = find_losses(inputs(), measure="RR")
    restored = {query.id: set(query.restored_by) for query in found.per_query}
    assert restored == {
        "truncated": {"truncation"},
        "lexical": {"lexical_score"},
        "unjudged": {"unjudged"},
        "missing": {"depth", "missing"},
        "unexplained": set(),
    }
    assert (found.queries, found.worse, found.better) == (6, 5, 1)
    assert (found.unexplained, found.unexplained_share) == (1, 1 / 5)
    assert found.run_mean == pytest.approx((0.5 * 4 + 0 + 1) / 6)
    assert found.baseline_mean == pytest.approx((5 + 0.5) / 6)
    assert found.notes == ()


def test_what_is_recovered_is_a_share_of_what_was_lost() -> None:
    causes = {cause.key: cause for cause in find_losses(inputs(), measure="RR").causes}
    lost = 4 * (1 - 0.5) + 1
    assert causes["truncation"].recovered == pytest.approx(0.5 / lost)
    assert causes["missing"].recovered == pytest.approx(1.0 / lost)
    assert (causes["truncation"].applies, causes["truncation"].restored) == (1, 1)
    assert causes["truncation"].share == 1 / 5
    assert (causes["depth"].applies, causes["missing"].applies) == (1, 1)


def test_values_without_a_cause_are_those_of_its_rankings() -> None:
    [query] = [q for q in find_losses(inputs(), measure="RR").per_query if q.id == "lexical"]
    # l1: (1 + .5) / 2, l3: (0 + 1) / 2
    assert query.without["lexical_score"] == 1.0 and "unjudged" not in query.without
    assert (query.baseline, query.run) == (1.0, 0.5)


def test_causes_that_need_a_model_are_not_run_without_one() -> None:
    found = find_losses(replace(inputs(), scorer=None), measure="RR")
    not_run = {cause.key: cause.why_not for cause in found.causes if not cause.was_run}
    assert {key for key, why in not_run.items() if why == "no model was given"} == {
        "truncation", "depth", "missing",
    }  # fmt: skip
    assert "whole documents" in not_run["passages"]
    assert found.unexplained == 3


def test_nothing_is_scored_anew_for_a_run_that_the_model_does_not_give() -> None:
    run = {**RUN, "truncated": {"t2": 0.75, "t1": 0.0}}
    other = replace(inputs(), run=Run.from_dict(run).with_queries(QUERIES))
    found = find_losses(other, measure="RR")
    [query] = [query for query in found.per_query if query.id == "truncated"]
    assert "truncation" not in query.without
    assert "for 1 of the 5 worse queries" in found.notes[0]
    wrong = Run.from_dict({"missing": {"m2": 0.25}}).with_queries(QUERIES.select(np.array([2])))
    found = find_losses(replace(inputs(), run=wrong), measure="RR")
    reasons = {cause.key: cause.why_not for cause in found.causes}
    assert "does not give the scores" in reasons["missing"]


def test_only_relevant_judgements_say_nothing_of_unjudged_documents() -> None:
    positive = {
        query: {name: 1 for name, grade in grades.items() if grade}
        for query, grades in QRELS.items()
    }
    found = find_losses(replace(inputs(), qrels=Qrels.from_dict(positive)), measure="RR")
    [cause] = [cause for cause in found.causes if cause.key == "unjudged"]
    assert not cause.was_run and "only relevant documents" in cause.why_not


def test_whole_documents_instead_of_passages() -> None:
    texts = {"a": "good " + "word " * 40 + "good", "b": "fair fair fair"}
    documents = {name: Document(name, text) for name, text in texts.items()}
    run = Run.from_dict({"q": {"b": 1.5, "a": 1.0}}).with_queries(Queries.of([Query("q", "x")]))
    baseline = Run.from_dict({"q": {"a": 9.0, "b": 1.0}})
    some = LossInputs(
        run, baseline, Qrels.from_dict({"q": {"a": 1}}), documents, Praise(), "words:20:10"
    )
    [query] = find_losses(some, measure="RR").per_query
    assert query.without["passages"] == 1.0 and "passages" in query.restored_by


def test_an_index_is_searched_for_more_candidates(tmp_path: Path) -> None:
    texts = {f"d{n:02}": "sieve " * (20 - n) + "word" for n in range(12)} | {
        "z": "sieve " + "good " * 9
    }
    index = Index.build(texts, tmp_path / "index")
    run = Run.from_dict({"q": {"d00": 0.0, "d01": 0.0}})
    run = run.with_queries(Queries.of([Query("q", "sieve")]))
    baseline = Run.from_dict({"q": {"z": 2.0}})
    some = LossInputs(
        run, Run.from_dict({"q": {"d00": 1.0}}), Qrels.from_dict({"q": {"z": 1}}), index, Praise()
    )
    assert find_losses(some, measure="RR").worse == 0
    found = find_losses(replace(some, baseline=baseline), measure="RR")
    [query] = found.per_query
    assert query.without["depth"] == 1.0
    assert "lexical_score" not in query.restored_by


def test_an_index_is_searched_deeper_than_both_runs(tmp_path: Path) -> None:
    """Document z is a candidate of neither; it is the eleventh of BM25, the model's first."""
    texts = {f"d{n:02}": "sieve " * (20 - n) + "word" for n in range(10)}
    index = Index.build({**texts, "z": "sieve " + "good " * 19}, tmp_path / "index")
    queries = Queries.of([Query("q", "sieve")])
    assert index.bm25().search(queries, 11)["q"].ids[10] == "z"
    run = Run.from_dict({"q": {"d01": 0.0, "d00": 0.0}}).with_queries(queries)
    baseline = Run.from_dict({"q": {"d00": 2.0, "d01": 1.0}})
    qrels = Qrels.from_dict({"q": {"d00": 1, "z": 1}})
    some = LossInputs(run, baseline, qrels, index, Praise(), deeper=6)  # of 2 candidates
    [query] = find_losses(some, measure="RR").per_query
    assert (query.run, query.without["depth"]) == (0.5, 1.0) and "depth" in query.restored_by
    assert "missing" not in query.without
    [query] = find_losses(replace(some, deeper=5), measure="RR").per_query
    assert query.without["depth"] == 1 / 10  # d00 is the last of ten that the model ties


def test_a_document_that_both_lack_explains_no_loss() -> None:
    """With the same candidates in both, none is missing in one of them."""
    run = Run.from_dict({"q": {"b": 1.0, "a": 0.5}}).with_queries(Queries.of([Query("q", "x")]))
    baseline = Run.from_dict({"q": {"a": 9.0, "b": 1.0}})
    qrels = Qrels.from_dict({"q": {"a": 1, "c": 1}})
    texts = {"a": "fair", "b": "good", "c": "good good"}
    documents = {name: Document(name, text) for name, text in texts.items()}
    some = LossInputs(run, baseline, qrels, documents, Praise())
    [query] = find_losses(some, measure="RR").per_query
    assert "missing" not in query.without and query.restored_by == ()
    other = replace(some, baseline=Run.from_dict({"q": {"a": 9.0, "c": 1.0}}))
    [query] = find_losses(other, measure="RR").per_query
    assert query.without["missing"] == 1.0 and "missing" in query.restored_by


def test_unjudged_documents_are_left_out_of_both_runs() -> None:
    """Left out of the run alone they would restore the first query: its RR is 1/2 then, what the
    baseline has with them.
    """
    run = {"both": {"x": 3.0, "b": 2.0, "a": 1.0}, "run": {"x": 3.0, "a": 2.0, "b": 1.0}}
    baseline = {"both": {"x": 3.0, "a": 2.0, "b": 1.0}, "run": {"a": 3.0, "b": 2.0}}
    qrels = Qrels.from_dict({query: {"a": 1, "b": 0} for query in run})
    some = LossInputs(Run.from_dict(run), Run.from_dict(baseline), qrels, [])
    found = find_losses(some, measure="RR")
    queries = {query.id: query for query in found.per_query}
    assert queries["both"].without["unjudged"] == 1 / 2
    assert queries["both"].baseline_without == {"unjudged": 1.0}
    assert queries["both"].restored_by == ()
    assert queries["run"].without["unjudged"] == 1.0 and queries["run"].baseline_without == {}
    assert queries["run"].restored_by == ("unjudged",)
    [cause] = [cause for cause in found.causes if cause.key == "unjudged"]
    lost = (1 / 2 - 1 / 3) + (1 - 1 / 2)
    gained = (1 / 2 - 1 / 3) - (1 - 1 / 2) + (1 - 1 / 2)
    assert (cause.applies, cause.restored) == (2, 1)
    assert cause.recovered == pytest.approx(gained / lost)


def test_a_query_that_gains_without_reaching_the_baseline_is_not_restored() -> None:
    run = Run.from_dict({"q": {"x": 3.0, "b": 2.0, "a": 1.0}})
    baseline = Run.from_dict({"q": {"a": 2.0, "b": 1.0}})
    some = LossInputs(run, baseline, Qrels.from_dict({"q": {"a": 1, "b": 0}}), [])
    found = find_losses(some, measure="RR")
    [query] = found.per_query
    assert query.run == pytest.approx(1 / 3) and query.without["unjudged"] == 1 / 2
    assert query.restored_by == () and found.unexplained == 1


def test_the_lexical_score_is_bm25_over_the_index_whatever_the_baseline_is(tmp_path: Path) -> None:
    texts = {"a": "sieve sieve sieve", "b": "sieve drum drum", "c": "drum net"}
    index = Index.build(texts, tmp_path / "index")
    queries = Queries.of([Query("q", "sieve")])
    run = Run.from_dict({"q": {"c": 0.9, "b": 0.6, "a": 0.1}}).with_queries(queries)
    cosines = Run.from_dict({"q": {"b": 0.3, "c": 0.2}})
    some = LossInputs(run, cosines, Qrels.from_dict({"q": {"b": 1}}), index)
    bm25 = index.bm25().search(queries, 3).to_dict()["q"]
    assert fuse_lexical_score(some)["q"] == pytest.approx({
        "c": (0 + 1) / 2,
        "b": (bm25["b"] / bm25["a"] + (0.6 - 0.1) / (0.9 - 0.1)) / 2,
        "a": (1 + 0) / 2,
    })  # fmt: skip
    column = replace(some, run=run.with_extra(lexical_score=np.array([4, 3, 2], np.float32)))
    for one in (column, replace(column, documents=[])):  # the run's column, of an index or not
        assert fuse_lexical_score(one)["q"] == pytest.approx({
            "c": 1, "b": (0.5 + (0.6 - 0.1) / (0.9 - 0.1)) / 2, "a": 0,
        })  # fmt: skip


def test_without_a_lexical_score_its_loss_is_not_undone(tmp_path: Path) -> None:
    run, baseline = (Run.from_dict({"q": {"a": 1.0, "b": n}}) for n in (2.0, 0.5))
    some = LossInputs(run, baseline, Qrels.from_dict({"q": {"a": 1}}), [])
    why = find_losses(some).causes[0].why_not
    assert why == "the collection is no index, and the run has no lexical_score"
    index = Index.build({"a": "sieve", "b": "net"}, tmp_path / "index")
    why = find_losses(replace(some, documents=index)).causes[0].why_not
    assert why == "the texts of the queries are not known"


def test_a_model_at_its_greatest_length(tiny_cross_encoder: Path) -> None:
    from tamis.scorers.cross_encoder import CrossEncoder

    short = CrossEncoder.open(tiny_cross_encoder, max_length=10)
    longer = at_greatest_length(short)
    assert isinstance(longer, CrossEncoder) and longer.max_length == 24
    assert at_greatest_length(longer) is None and at_greatest_length(Praise()) is None


def test_runs_without_a_judged_query_are_refused() -> None:
    with pytest.raises(InputError, match="no query of the two runs is judged"):
        find_losses(replace(inputs(), qrels=Qrels.from_dict({"other": {"a": 1}})))


def test_the_page_says_what_was_found() -> None:
    losses = find_losses(inputs(), measure="RR", names=("new", "BM25"))
    page = Page(losses_page(losses))
    assert_inside(page)
    assert finding(losses) in page.words
    assert page.row("the text is truncated", 7)[2:5] == ["1", "1", "20%"]
    assert page.row("passages are read", 7)[1].startswith("not run: ")
    assert page.row("unexplained", 7)[3:5] == ["1", "20%"]
    assert ("td", {"data-head": "remedy"}) in page.tags
    little = replace(losses.causes[0], recovered=-0.004)
    shown = Page(losses_page(replace(losses, causes=(little,))))
    assert shown.row("the lexical score", 7)[5] == "0%"
    assert page.row("truncated", 7)[2:6] == ["truncation", "1.0000", "0.5000", "−0.5000"]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, run in (("new", RUN), ("old", BASELINE)):
        lines = [
            f"{query} Q0 {doc} 1 {score} x\n"
            for query, scores in run.items()
            for doc, score in scores.items()
        ]
        (tmp_path / f"{name}.trec").write_text("".join(lines))
    judged = [
        f"{q} 0 {doc} {grade}\n" for q, grades in QRELS.items() for doc, grade in grades.items()
    ]
    (tmp_path / "qrels.txt").write_text("".join(judged))
    docs = [json.dumps({"_id": name, "text": text}) + "\n" for name, text in TEXTS.items()]
    (tmp_path / "docs.jsonl").write_text("".join(docs))
    return tmp_path


def test_queries_that_are_not_shown_are_counted_below_those_that_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    losses = find_losses(inputs(), measure="RR")
    many = replace(losses, per_query=losses.per_query * 3)
    show_losses(many)
    assert capsys.readouterr().out.splitlines()[-1] == "and 5 more"
    show_losses(losses)
    assert "more" not in capsys.readouterr().out.splitlines()[-1]


def test_the_command(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["explain", "losses", "new.trec", "BM25=old.trec", "--qrels", "qrels.txt"]
    command += ["-c", "docs.jsonl", "-m", "RR"]
    assert tamis_command([*command, "--html", "page.html"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("5 queries of 6 below BM25: undoing “unjudged documents on top”")
    assert "not run: no model was given" in text and "Worse queries" in text
    assert "not run: the collection is no index, and the run has no lexical_score" in text
    Page(Path("page.html").read_text("utf-8"))
    assert tamis_command([*command, "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert (values["schema"], values["worse"], values["baseline"]) == ("tamis.losses", 5, "BM25")
    capsys.readouterr()
    for option in (["--passages", "whole"], ["--aggregate", "max"], ["--deeper", "2"]):
        assert tamis_command([*command, *option]) == 1
        error, hint = capsys.readouterr().err.splitlines()
        assert error == f"error: {option[0]} without --model" and "--model" in hint
