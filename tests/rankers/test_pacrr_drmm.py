"""PACRR-DRMM: every layer by hand, parity with convolving all, losses, a tiny set overfitted."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.rankers.small import WORDS, small_candidates

from tamis.errors import DamagedError, InputError, LineError
from tamis.rankers import _pacrr_inputs as inputs
from tamis.rankers._best_windows import highest_cells, highest_windows
from tamis.rankers.pacrr_drmm import PACRRDRMM, PACRRDRMMSettings, build_network
from tamis.rankers.sampling import relevant_rows, sample_pairs
from tamis.rankers.term_texts import CandidateTerms, TermSource
from tamis.registry import open_stage
from tamis.scorers.word_vectors import WordVectors
from tamis.search import Index
from tamis.testing import check_stage
from tamis.types import Document, Qrels, Queries, Query, Run

torch: Any = pytest.importorskip("torch", reason="the extra neural is not installed")
SMALL = PACRRDRMMSettings(
    max_query_terms=4, max_document_terms=8, filters=3, epochs=3, batch_size=4, learning_rate=0.01
)
TABLE = np.random.default_rng(3).normal(size=(len(WORDS), 6)).astype(np.float32)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Threads of torch that wait for each other take most of the time where others compute too."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def vectors() -> WordVectors:
    return WordVectors.of(WORDS, TABLE)


def small() -> tuple[Run, Qrels, TermSource]:
    run, qrels, documents = small_candidates()
    return run, qrels, TermSource(vectors(), documents)


def fitted(settings: PACRRDRMMSettings = SMALL) -> PACRRDRMM:
    return PACRRDRMM.fit(*small(), settings)


# Windows and pooling


def cells_of(values: list[list[float]], longest: int, k: int = 2) -> Any:
    similarity = np.array([values], np.float32)
    rows, columns = np.array([len(values)], np.int32), np.array([len(values[0])], np.int32)
    cells = np.zeros((1, len(values), k), np.float32)
    highest_cells(similarity, rows, columns, longest, cells)
    return cells[0].round(4).tolist()


def test_the_best_cells_of_a_row_the_highest_first() -> None:
    assert cells_of([[0.5, -0.25, 0.75]], 3) == [[0.75, 0.5]]
    assert cells_of([[0.5, 0.5, 0.25]], 3) == [[0.5, 0.5]]


def test_zeros_after_a_short_document_are_cells_too() -> None:
    values = [[-0.5, -0.25, -0.75], [0.5, -0.25, -0.75]]
    assert cells_of(values, 3) == [[-0.25, -0.5], [0.5, -0.25]]
    assert cells_of(values, 4) == [[0, -0.25], [0.5, 0]]
    assert cells_of(values, 300) == [[0, 0], [0.5, 0]]


def windows_of(values: Any, kernels: Any, biases: Any, q: int, longest: int, k: int = 2) -> Any:
    similarity = np.array([values], np.float32)
    n = len(kernels[0])
    windows = np.zeros((1, q, k, n * n), np.float32)
    lengths = np.array([similarity.shape[1]], np.int32), np.array([similarity.shape[2]], np.int32)
    as_floats = np.array(kernels, np.float32), np.array(biases, np.float32)
    highest_windows(similarity, *lengths, longest, *as_floats, windows)
    return windows[0]


def test_the_best_windows_by_hand() -> None:
    """A kernel that adds the diagonal, one that takes the upper right cell and adds a half."""
    values = [[0.5, 0.25, 1.0], [0.125, 0.75, 0.25]]
    kernels, biases = [[[1, 0], [0, 1]], [[0, 1], [0, 0]]], [0, 0.5]
    # row 0: max(.5 + .75, .5 + .25), max(.25 + .25, .5 + 1), max(1 + 0, .5 + 0)
    # row 1, zeros under it: max(.125, .5 + .75), max(.75, .5 + .25), max(.25, .5)
    windows = windows_of(values, kernels, biases, 2, 3)
    assert windows[0].tolist() == [[0.25, 1.0, 0.75, 0.25], [0.5, 0.25, 0.125, 0.75]]
    assert windows[1].tolist() == [[0.125, 0.75, 0, 0], [0.75, 0.25, 0, 0]]


def numpy_pooled(values: Any, kernels: Any, biases: Any, q: int, longest: int, k: int) -> Any:
    """Pad the matrix, convolve every cell in loops, ReLU, maximum over filters, sort."""
    n = len(kernels[0])
    before = (n - 1) // 2
    padded = np.zeros((q + n, longest + n))
    padded[before : before + len(values), before : before + len(values[0])] = values
    pooled = np.zeros((q, k))
    for row in range(q):
        best = []
        for column in range(longest):
            part = padded[row : row + n, column : column + n]
            sums = [(kernel * part).sum() + b for kernel, b in zip(kernels, biases, strict=True)]
            best.append(max(0, *sums))
        pooled[row] = sorted(best)[::-1][:k]
    return pooled


@pytest.mark.parametrize("n", [2, 3, 4])
@pytest.mark.parametrize(("q", "longest"), [(3, 6), (5, 7), (6, 30)])
def test_windows_are_worth_what_convolving_all_cells_gives(n: int, q: int, longest: int) -> None:
    rng = np.random.default_rng(n)
    for k in (1, 3):
        values = rng.uniform(-1, 1, (3, 6))
        kernels, biases = rng.normal(size=(5, n, n)), rng.normal(size=5) - 0.5
        windows = windows_of(values, kernels, biases, q, longest, k)
        found = np.maximum(windows @ kernels.reshape(5, -1).T + biases, 0).max(-1)
        expected = numpy_pooled(values, kernels, biases, q, longest, k)
        assert np.allclose(found, expected, atol=1e-5)


# The network


def by_hand(network: Any, signals: Any, idf: Any, features: Any) -> float:
    """The layers after pooling in numpy: gate, an MLP a term, a dense layer over terms."""
    weights = {name: value.numpy().astype(float) for name, value in network.state_dict().items()}
    gate = np.exp(idf) / np.exp(idf).sum()
    hidden = np.concatenate([gate[:, None], signals], 1)
    for layer in ("0", "2"):
        hidden = hidden @ weights[f"term.{layer}.weight"].T + weights[f"term.{layer}.bias"]
        hidden = np.maximum(hidden, 0)
    scores = hidden @ weights["term.4.weight"][0] + weights["term.4.bias"]
    last = np.concatenate([scores, features])
    return float(weights["dense.0.weight"][0] @ last + weights["dense.0.bias"][0])


def tensors(*values: Any) -> list[Any]:
    return [torch.tensor(value, dtype=torch.float32)[None] for value in values]


def test_the_layers_after_pooling_by_hand() -> None:
    """A query of two terms in room for four: padding enters the softmax of idf as 0."""
    network = build_network(SMALL)
    rng = np.random.default_rng(0)
    cells, features = rng.normal(size=(4, 2)), rng.normal(size=4)
    windows = [rng.normal(size=(4, 2, n * n)) for n in (2, 3)]
    idf = np.array([1.5, 0.5, 0, 0])
    signals = [cells]
    for convolution, parts in zip(network.convolutions, windows, strict=True):
        kernels = convolution.weight.detach().numpy().reshape(3, -1)
        values = np.maximum(parts @ kernels.T + convolution.bias.detach().numpy(), 0)
        signals.append(values.max(2))
    expected = by_hand(network, np.concatenate(signals, 1), idf, features)
    with torch.no_grad():
        found = network(
            *tensors(cells), tensors(*windows), *tensors(idf), torch.tensor([2]), *tensors(features)
        )
    assert found.shape == (1,)
    assert found.item() == pytest.approx(expected, abs=1e-5)


def candidate_terms(settings: PACRRDRMMSettings, seed: int = 0) -> CandidateTerms:
    """Random terms: queries and documents of every length, none included."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(40, 5)).astype(np.float32)
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    values[0] = 0
    q, longest = settings.max_query_terms, settings.max_document_terms
    lengths = np.arange(q + 1, dtype=np.int32)
    terms, idf = np.zeros((q + 1, q), np.int32), np.zeros((q + 1, q), np.float32)
    for query, length in enumerate(lengths):
        terms[query, :length], idf[query, :length] = rng.integers(1, 40, length), rng.random(length)
    of_document = np.arange(longest + 1, dtype=np.int32)
    offsets = np.concatenate([[0], np.cumsum(of_document)[:-1]])
    pairs = np.indices((q + 1, longest + 1)).reshape(2, -1)
    return CandidateTerms(
        values, terms, idf, lengths, rng.integers(1, 40, of_document.sum()).astype(np.int32),
        offsets, of_document, pairs[0], pairs[1],
        rng.normal(size=(pairs.shape[1], 4)).astype(np.float32),
    )  # fmt: skip


def convolved(network: Any, terms: CandidateTerms, rows: Any) -> Any:
    """The scores as the equations say: all zeros stored, all cells convolved, topk."""
    q, longest = terms.query_terms.shape[1], network.max_document_terms
    matrix = np.zeros((len(rows), q, longest), np.float32)
    for place, row in enumerate(rows):
        document = terms.document[row]
        start = terms.document_offsets[document]
        words = terms.document_terms[start : start + terms.document_lengths[document]]
        of_query = terms.vectors[terms.query_terms[terms.query[row]]]
        matrix[place, :, : len(words)] = of_query @ terms.vectors[words].T
    similarity = torch.from_numpy(matrix)
    idf = torch.from_numpy(terms.query_idf[terms.query[rows]])
    signals = [torch.softmax(idf, 1)[:, :, None], similarity.topk(network.kmax, 2).values]
    for number, convolution in enumerate(network.convolutions):
        before, after = (number + 1) // 2, (number + 2) // 2
        padded = torch.nn.functional.pad(similarity, (before, after, before, after))
        maps = torch.nn.functional.conv2d(padded[:, None], convolution.weight, convolution.bias)
        signals.append(torch.relu(maps).amax(1).topk(network.kmax, 2).values)
    values, features = torch.cat(signals, 2), torch.from_numpy(terms.features[rows])
    if network.combine == "pacrr":
        return network.dense(torch.cat([values.flatten(1), features], 1))[:, 0]
    scores = network.term(values)[:, :, 0]
    if network.combine == "gated_sum":
        real = torch.arange(q) < torch.from_numpy(terms.query_lengths[terms.query[rows]])[:, None]
        gate = torch.exp(idf) * real
        scores = (scores * gate).sum(1, keepdim=True) / gate.sum(1, keepdim=True).clamp(min=1e-9)
    return network.dense(torch.cat([scores, features], 1))[:, 0]


@pytest.mark.parametrize("combine", ["positions", "gated_sum", "pacrr"])
@pytest.mark.parametrize("window", [1, 3, 4])
def test_scores_and_gradients_are_those_of_convolving_all(combine: Any, window: int) -> None:
    settings = replace(SMALL, combine=combine, window=window, max_document_terms=7)
    network, terms = build_network(settings), candidate_terms(settings)
    rows = np.arange(len(terms))
    with ThreadPoolExecutor(2) as pool:
        scores = network(*inputs.network_inputs(network, terms, rows, pool))
    expected = convolved(network, terms, rows)
    assert torch.allclose(scores, expected, atol=1e-5)
    weights = torch.linspace(-1, 1, len(rows))
    parameters = list(network.parameters())
    found = torch.autograd.grad((scores * weights).sum(), parameters)
    for one, other in zip(
        found, torch.autograd.grad((expected * weights).sum(), parameters), strict=True
    ):
        assert torch.allclose(one, other, atol=1e-4)


def test_the_gated_sum_does_not_see_where_a_term_stands() -> None:
    network = build_network(replace(SMALL, combine="gated_sum"))
    rng = np.random.default_rng(0)
    parts = rng.normal(size=(4, 2)), rng.normal(size=(4, 2, 4)), rng.normal(size=(4, 2, 9))
    idf, features = np.array([1.5, 0.5, 1.0, 0.0]), rng.normal(size=4)

    def score(order: list[int]) -> float:
        cells, *windows = tensors(*(part[order] for part in parts))
        given = *tensors(idf[order]), torch.tensor([3]), *tensors(features)
        return float(network(cells, windows, *given).item())

    assert score([2, 0, 1, 3]) == pytest.approx(score([0, 1, 2, 3]), abs=1e-6)


# Losses and training


def test_both_losses_by_hand() -> None:
    from tamis.rankers._pacrr_network import margin_loss, softmax_loss

    relevant, other = torch.tensor([2.0, 0.5, 0.0]), torch.tensor([0.5, 0.25, 1.0])
    assert margin_loss(relevant, other).item() == pytest.approx((0 + (1 - 0.25) + (1 + 1)) / 3)
    shares = np.exp([2.0, 0.5, 0.0]) / (np.exp([2.0, 0.5, 0.0]) + np.exp([0.5, 0.25, 1.0]))
    assert softmax_loss(relevant, other).item() == pytest.approx(-np.log(shares).mean())


@pytest.mark.parametrize("loss", ["margin", "softmax"])
def test_gradients_by_finite_differences(loss: str) -> None:
    from tamis.rankers._pacrr_network import margin_loss, softmax_loss

    network, terms = build_network(SMALL), candidate_terms(SMALL)
    rows = np.array([5, 14, 23, 32, 41, 30])
    with ThreadPoolExecutor(1) as pool:
        cells, windows, idf, lengths, features = inputs.network_inputs(network, terms, rows, pool)
    network.double()
    given = cells.double(), [one.double() for one in windows], idf.double(), lengths

    def value() -> Any:
        scores = network(*given, features.double())
        return (margin_loss if loss == "margin" else softmax_loss)(scores[:3], scores[3:])

    value().backward()
    step = 1e-6
    for parameter in network.parameters():
        gradient, flat = parameter.grad.flatten(), parameter.data.view(-1)
        for place in range(0, len(flat), 5):
            before = flat[place].item()
            flat[place] = before + step
            high = value().item()
            flat[place] = before - step
            low = value().item()
            flat[place] = before
            assert gradient[place].item() == pytest.approx((high - low) / (2 * step), abs=1e-6)


def test_pairs_are_of_one_query_and_all_relevant_rows() -> None:
    relevant = np.array([True, False, True, False, True, True, False, False])
    offsets = np.array([0, 4, 6, 8])  # the second list is all relevant, the third not at all
    drawn = {tuple(map(tuple, sample_pairs(offsets, relevant, np.random.default_rng(seed))))
             for seed in range(40)}  # fmt: skip
    assert drawn == {((0, a), (2, b)) for a in (1, 3) for b in (1, 3)}


def is_first_relevant(run: Run, qrels: Qrels) -> list[bool]:
    top = {query: {run[query].ids[0]: 1.0} for query in run}
    relevant: list[bool] = relevant_rows(Run.from_dict(top), qrels).tolist()
    return relevant


@pytest.mark.parametrize("loss", ["margin", "softmax"])
def test_a_tiny_set_is_overfitted(loss: Any) -> None:
    run, qrels, texts = small()
    assert not all(is_first_relevant(run, qrels))
    ranker = PACRRDRMM.fit(run, qrels, texts, replace(SMALL, loss=loss, epochs=80, batch_size=16))
    assert ranker.losses[-1] < ranker.losses[0] / 3
    assert all(is_first_relevant(ranker(run), qrels))


def test_the_same_seed_makes_the_same_model() -> None:
    state = torch.random.get_rng_state()
    one, two = fitted(), fitted()
    assert torch.equal(torch.random.get_rng_state(), state)
    assert one.losses == two.losses
    assert one(small()[0]) == two(small()[0])
    assert fitted(replace(SMALL, seed=1)).losses != one.losses


def test_pairs_are_drawn_anew_or_once(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []

    def counted(*arguments: Any) -> Any:
        drawn.append(sample_pairs(*arguments))
        return drawn[-1]

    monkeypatch.setattr("tamis.rankers.pacrr_drmm.sample_pairs", counted)
    fitted()
    assert len(drawn) == SMALL.epochs
    assert not np.array_equal(drawn[0], drawn[1])
    fitted(replace(SMALL, resample=False))
    assert len(drawn) == SMALL.epochs + 1


def test_the_epoch_with_the_best_map_is_selected(monkeypatch: pytest.MonkeyPatch) -> None:
    run, qrels, texts = small()
    values = iter([0.3, 0.5, 0.5, 0.4, 0.9])
    monkeypatch.setattr("tamis.rankers.pacrr_drmm._average_precision", lambda *_: next(values))
    settings, epochs = replace(SMALL, epochs=9, patience=2), []
    stopped = PACRRDRMM.fit(
        run, qrels, texts, settings, validation=(run, qrels),
        on_epoch=lambda epoch, loss: epochs.append(epoch),
    )  # fmt: skip
    assert epochs == [one.epoch for one in stopped.validations] == [1, 2, 3, 4]
    assert stopped(run) == PACRRDRMM.fit(run, qrels, texts, replace(settings, epochs=2))(run)


def test_validation_is_by_average_precision() -> None:
    from tamis.evaluation import evaluate

    run, qrels, texts = small()
    ranker = PACRRDRMM.fit(run, qrels, texts, replace(SMALL, epochs=1), validation=(run, qrels))
    expected = evaluate(qrels, {"ranked": ranker(run)}, ["AP"]).mean("ranked", "AP")
    assert [one.mean_average_precision for one in ranker.validations] == [expected]


# Scores


def test_a_batch_of_one_equals_a_batch_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    network, terms = build_network(SMALL), candidate_terms(SMALL)
    many = inputs.score_rows(network, terms)
    monkeypatch.setattr(inputs, "NUMBERS_PER_BATCH", 1)
    assert np.allclose(inputs.score_rows(network, terms), many, atol=1e-6)
    assert len(set(many.tolist())) > len(many) / 2


def test_the_order_of_candidates_and_other_queries_do_not_matter() -> None:
    run, _, _ = small()
    ranker = fitted()
    scores = {query: dict(run[query]) for query in run}
    backwards = {query: dict(list(scores[query].items())[::-1]) for query in list(scores)[::-1]}
    again = Run.from_dict(backwards).with_queries(run.queries)
    assert np.array_equal(ranker(again).score, ranker(run).score)
    one = Run.from_dict({"q03": scores["q03"]}).with_queries(run.queries.select(np.array([3])))
    assert ranker(one)["q03"].ids == ranker(run)["q03"].ids
    assert np.allclose(ranker(one)["q03"].score, ranker(run)["q03"].score, atol=1e-6)


def on_disk(folder: Path) -> tuple[Run, Qrels, TermSource]:
    run, qrels, documents = small_candidates()
    lines = [f"{word} {' '.join(map(str, row))}\n" for word, row in zip(WORDS, TABLE, strict=True)]
    (folder / "vectors.txt").write_text("".join(lines[:-1]))  # one word has no vector
    index = Index.build(list(documents.values()), folder / "index")
    return run, qrels, TermSource.read(folder / "vectors.txt", index)


def test_it_is_saved_loaded_and_opened_with_the_same_scores(tmp_path: Path) -> None:
    run, qrels, texts = on_disk(tmp_path)
    ranker = PACRRDRMM.fit(run, qrels, texts, SMALL, validation=(run, qrels))
    check_stage(ranker, run)
    saved = ranker.save(tmp_path / "ranker")
    for other in (PACRRDRMM.load(tmp_path / "ranker", texts), open_stage(saved.spec())):
        assert isinstance(other, PACRRDRMM)
        assert np.array_equal(other(run).score, ranker(run).score)
        assert (other.losses, other.settings) == (ranker.losses, ranker.settings)
        assert other.validations == ranker.validations
    texts.documents.add([Document("new", "sieve " * 9)])  # type: ignore[union-attr]
    reopened = open_stage(saved.spec())  # idf stays that of training
    assert np.array_equal(reopened(run).score, ranker(run).score)
    (tmp_path / "ranker" / "model.safetensors").write_bytes(b"cut")
    with pytest.raises(DamagedError, match="safetensors"):
        PACRRDRMM.load(tmp_path / "ranker", texts)


def test_other_word_vectors_are_refused(tmp_path: Path) -> None:
    spec = PACRRDRMM.fit(*on_disk(tmp_path), SMALL).save(tmp_path / "ranker").spec()
    wider = TermSource(WordVectors.of(WORDS, np.ones((len(WORDS), 7), np.float32)), [])
    with pytest.raises(InputError, match="dimension 6, not 7"):
        PACRRDRMM.load(tmp_path / "ranker", wider)
    file = tmp_path / "vectors.txt"
    whole = file.read_text()
    file.write_text(whole.replace("sieve ", "sieve 1", 1))
    with pytest.raises(InputError, match="changed since"):
        open_stage(spec)
    file.write_text(whole[: len(whole) // 2])
    with pytest.raises(LineError, match="numbers, not 6"):
        TermSource.read(file, [])


# Bad input


def test_queries_and_documents_without_words_have_scores() -> None:
    ranker = fitted()
    documents = {"empty": Document("empty", ""), "odd": Document("odd", "zzz ... yyy")}
    texts = replace(ranker.texts, documents=documents)
    queries = Queries.of([Query("q1", "???"), Query("q2", "xxx www"), Query("q3", "")])
    run = Run.from_dict({query: {"empty": 2.0, "odd": 1.0} for query in ("q1", "q2", "q3")})
    ranked = replace(ranker, texts=texts)(run.with_queries(queries))
    assert np.isfinite(ranked.score).all()
    nothing = Run.from_dict({"q1": {}}).with_queries(queries.select(np.array([0])))
    assert ranker(nothing).sizes().sum() == 0


def test_queries_that_teach_nothing_are_left_out() -> None:
    run, _, texts = small()
    judged = {query: dict.fromkeys(run[query].ids, 1) for query in run if query < "q06"}
    with pytest.raises(InputError, match="no query has both"):
        PACRRDRMM.fit(run, Qrels.from_dict(judged), texts, SMALL)
    judged["q09"] = {run["q09"].ids[0]: 1}
    ranker = PACRRDRMM.fit(run, Qrels.from_dict(judged), texts, SMALL)
    assert np.isfinite(ranker.losses).all()
    with pytest.raises(InputError, match="no candidate of the run is judged"):
        PACRRDRMM.fit(run, Qrels.from_dict({"q00": {"none": 1}}), texts, SMALL)


def test_runs_that_cannot_be_read_are_refused() -> None:
    run, qrels, texts = small()
    scores = {query: dict(run[query]) for query in run}
    with pytest.raises(InputError, match="no texts"):
        fitted()(Run.from_dict(scores))
    noisy = run.with_extra(noisy=np.where(np.arange(len(run.doc)) == 3, np.nan, 1.0))
    with pytest.raises(InputError, match="'noisy' is nan"):
        PACRRDRMM.fit(noisy, qrels, replace(texts, column="noisy"), SMALL)
    scores["q03"]["d03-0"] = float("nan")
    with pytest.raises(InputError, match="not a number"):
        fitted()(Run.from_dict(scores))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kmax": 0}, "too small"),
        ({"hidden_size": 0}, "too small"),
        ({"margin": 0.0}, "too small"),
        ({"learning_rate": float("nan")}, "too small"),
        ({"max_document_terms": 1}, "no 2 best"),
        ({"loss": "hinge"}, "no loss 'hinge'"),
        ({"combine": "sum"}, "no combine 'sum'"),
    ],
)
def test_settings_are_checked(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        replace(SMALL, **change)
    assert caught.value.hint


def test_a_loss_that_is_no_number_is_an_error() -> None:
    from tamis.errors import TrainingError

    with pytest.raises(TrainingError, match="no number"):
        fitted(replace(SMALL, learning_rate=1e25, epochs=9))
