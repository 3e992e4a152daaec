"""Agreement of two runs, by hand, against scipy and against the sum that defines it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tamis.errors import InputError
from tamis.evaluation import agree
from tamis.evaluation.agreement import tau_b
from tamis.types import Run


def run_of(**rankings: str) -> Run:
    """A run with these rankings; a document is a letter."""
    return Run.from_dict(
        {query: {d: float(-n) for n, d in enumerate(docs)} for query, docs in rankings.items()}
    )


def test_alike_and_apart() -> None:
    agreement = agree(run_of(same="abcde", none="abc"), run_of(same="abcde", none="xyz"), k=3)
    assert list(agreement.queries) == ["none", "same"]
    assert agreement.overlap.tolist() == [0, 1]
    assert agreement.jaccard.tolist() == [0, 1]
    assert agreement.rbo.tolist() == pytest.approx([0, 1])
    assert np.isnan(agreement.tau[0])
    assert agreement.tau[1] == pytest.approx(1)
    assert agreement.means()["tau"] == pytest.approx(1)


def test_values_by_hand() -> None:
    agreement = agree(run_of(q="abcd"), run_of(q="bxay"), k=2, p=0.8)
    assert agreement.overlap.tolist() == [1 / 2]
    assert agreement.jaccard.tolist() == [1 / 3]
    assert agreement.tau.tolist() == [-1]
    depths = [0, 1 / 2, 2 / 3, 2 / 4]
    expected = 0.5 * 0.8**4 + 0.2 / 0.8 * sum(a * 0.8 ** (d + 1) for d, a in enumerate(depths))
    assert agreement.rbo.tolist() == pytest.approx([expected])


def test_rankings_of_unequal_length() -> None:
    agreement = agree(run_of(q="ab"), run_of(q="abxy"), k=3, p=0.5)
    assert agreement.overlap.tolist() == pytest.approx([2 / 3])
    assert agreement.jaccard.tolist() == pytest.approx([2 / 3])
    extrapolated = [1, 1, 2 / 3 + 2 * 1 / (2 * 3), 2 / 4 + 2 * 2 / (2 * 4)]
    expected = sum(a * 0.5 ** (d + 1) for d, a in enumerate(extrapolated)) + 1 * 0.5**4
    assert agreement.rbo.tolist() == pytest.approx([expected])


def test_only_shared_queries_are_compared() -> None:
    agreement = agree(run_of(q1="ab", q2="ab"), run_of(q2="ba", q3="ab"))
    assert list(agreement.queries) == ["q2"]


def test_nothing_shared_has_no_mean() -> None:
    assert np.isnan(agree(run_of(q1="ab"), Run.from_dict({})).means()["overlap"])


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=30),
)
@settings(max_examples=60, deadline=None)
def test_tau_b_is_that_of_scipy(pairs: list[tuple[int, int]]) -> None:
    x, y = np.array(pairs, np.float32).T
    if len(set(x.tolist())) == 1 or len(set(y.tolist())) == 1:
        assert np.isnan(tau_b(x.copy(), y.copy()))
        return
    assert tau_b(x.copy(), y.copy()) == pytest.approx(stats.kendalltau(x, y).statistic, abs=1e-12)


@given(st.permutations("abcdefgh"), st.permutations("abcdefgh"), st.integers(0, 8))
@settings(max_examples=40, deadline=None)
def test_agreement_is_symmetric(first: list[str], second: list[str], cut: int) -> None:
    one, two = run_of(q="".join(first)), run_of(q="".join(second[:cut]))
    for name, value in agree(one, two, k=3).means().items():
        assert value == pytest.approx(agree(two, one, k=3).means()[name], nan_ok=True)


def test_bad_arguments() -> None:
    with pytest.raises(InputError):
        agree(run_of(q="a"), run_of(q="a"), k=0)
    with pytest.raises(InputError):
        agree(run_of(q="a"), run_of(q="a"), p=1.0)
