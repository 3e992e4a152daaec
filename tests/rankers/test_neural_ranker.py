"""The neural ranker: layers and loss by hand, a tiny set overfitted, equal seeds."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.rankers.small import embedded, small_candidates

from tamis.errors import DamagedError, InputError
from tamis.rankers.features import FeatureSource
from tamis.rankers.neural_ranker import NeuralRanker, NeuralRankerSettings
from tamis.rankers.sampling import relevant_rows
from tamis.testing import check_stage
from tamis.types import Qrels, Run

torch: Any = pytest.importorskip("torch", reason="the extra neural is not installed")
SMALL = NeuralRankerSettings(epochs=3, heads=2, list_size=5, batch_size=4, feed_forward=16)


def small_network() -> Any:
    from tamis.rankers._neural_network import Network

    torch.manual_seed(0)
    return Network(8, 1, 1, 2, 16, 0.1, 4).eval()


def leaky(values: Any) -> Any:
    return np.where(values > 0, values, 0.01 * values)


def sigmoid(values: Any) -> Any:
    return 1 / (1 + np.exp(-values))


def arrays(module: Any) -> dict[str, Any]:
    return {name: value.numpy().astype(float) for name, value in module.state_dict().items()}


def test_the_query_encoder_by_hand() -> None:
    encoder = small_network().query_encoder
    weights = arrays(encoder)
    values = np.random.default_rng(0).normal(size=8)
    expected = values
    for layer in ("0", "2", "4"):
        expected = leaky(weights[f"{layer}.weight"] @ expected + weights[f"{layer}.bias"])
    with torch.no_grad():
        found = encoder(torch.tensor(values[None], dtype=torch.float32)).numpy()
    assert found.shape == (1, 512)
    assert np.allclose(found[0], expected, atol=1e-5)


def test_the_passage_encoder_by_hand() -> None:
    """Convolutions of width 3, normalised by running statistics; 8 numbers are pooled to 2."""
    encoder = small_network().passage_encoder
    weights = arrays(encoder)
    values = np.random.default_rng(0).normal(size=8)
    maps = values[None]
    for convolution, norm in (("0", "1"), ("4", "5"), ("8", "9")):
        kernel = weights[f"convolutions.{convolution}.weight"]
        padded = np.pad(maps, ((0, 0), (1, 1)))
        maps = np.array(
            [
                [(filters * padded[:, i : i + 3]).sum() for i in range(maps.shape[1])]
                for filters in kernel
            ]
        )
        maps = maps + weights[f"convolutions.{convolution}.bias"][:, None]
        maps = leaky(maps / np.sqrt(1 + 1e-5))  # mean 0, variance 1, weight 1 and bias 0
        assert weights[f"convolutions.{norm}.running_var"].tolist() == [1] * len(maps)
        if convolution != "8":
            maps = maps.reshape(len(maps), -1, 2).max(2)
    assert maps.shape == (64, 2)
    expected = sigmoid(weights["dense.weight"] @ maps.ravel() + weights["dense.bias"])
    with torch.no_grad():
        found = encoder(torch.tensor(values[None], dtype=torch.float32)).numpy()[0]
    assert np.allclose(found, expected, atol=1e-5)


def test_the_scorer_by_hand() -> None:
    network = small_network()
    weights = arrays(network.scorer)
    rng = np.random.default_rng(0)
    query, passage, column = (
        torch.tensor(rng.normal(size=n), dtype=torch.float32) for n in (8, 8, 1)
    )
    with torch.no_grad():
        context = network.transformer[0](passage[None, None])
        product = network.query_encoder(query[None]) * network.passage_encoder(context[0])
        found = network(
            query[None], passage[None, None], column[None, None], torch.tensor([[True]])
        )
    values = np.append(product.numpy(), column.numpy())
    hidden = leaky(weights["0.weight"] @ values + weights["0.bias"])
    expected = sigmoid(weights["2.weight"] @ hidden + weights["2.bias"])
    assert np.allclose(found.numpy(), expected[None], atol=1e-5)


def test_padding_and_order_do_not_matter() -> None:
    network = small_network()
    query, passages, columns = torch.randn(1, 8), torch.randn(1, 4, 8), torch.randn(1, 4, 1)
    real = torch.ones(1, 4).bool()
    with torch.no_grad():
        whole = network(query, passages, columns, real)[0]
        order = torch.tensor([2, 0, 3, 1])
        assert torch.allclose(
            network(query, passages[:, order], columns[:, order], real)[0], whole[order], atol=1e-6
        )
        short = network(query, passages[:, :3], columns[:, :3], real[:, :3])[0]
        real[0, 3] = False
        padded = network(query, passages, columns, real)[0]
    assert torch.allclose(padded[:3], short, atol=1e-6)
    assert padded[3] == 0


def test_the_listwise_hinge_and_its_gradient_by_hand() -> None:
    from tamis.rankers._neural_network import listwise_hinge

    scores = torch.tensor([[0.5, 0.75, 0.25, 0.625], [0.5, 0.25, 0.0, 0.9]], requires_grad=True)
    relevant = torch.tensor([[True, False, False, True], [True, False, False, False]])
    real = torch.tensor([[True] * 4, [True, True, True, False]])
    loss: Any = listwise_hinge(scores, relevant, real, 0.0)
    assert loss.item() == pytest.approx(((0.75 - 0.5) + (0.75 - 0.625) + 0) / 2)
    loss.backward()
    assert scores.grad.tolist() == [[-0.5, 1.0, 0.0, -0.5], [0.0] * 4]
    wide = listwise_hinge(scores, relevant, real, 0.3)
    first = (0.3 + 0.25) + (0.3 + 0.125) + (0.3 - 0.25)
    assert wide.item() == pytest.approx((first + 0.3 - 0.25) / 2)


def test_equal_scores_cost_nothing_with_the_margin_as_printed() -> None:
    from tamis.rankers._neural_network import listwise_hinge

    scores, real = torch.full((1, 3), 0.4), torch.ones(1, 3).bool()
    relevant = torch.tensor([[True, False, False]])
    assert listwise_hinge(scores, relevant, real, 0.0).item() == 0
    assert listwise_hinge(scores, relevant, real, 0.1).item() == pytest.approx(0.2)


def first_is_relevant(run: Run, qrels: Qrels) -> list[bool]:
    order = [run[query].ids[0] for query in run]
    top = Run.from_dict({query: {doc: 1.0} for query, doc in zip(run, order, strict=True)})
    relevant: list[bool] = relevant_rows(top, qrels).tolist()
    return relevant


def test_a_tiny_set_is_overfitted() -> None:
    run, qrels, documents = small_candidates(4, 6)
    settings = replace(SMALL, epochs=60, margin=0.1, list_size=6, weight_decay=0.0)
    settings = replace(settings, transformer_dropout=0.0)
    ranker = NeuralRanker.fit(run, qrels, embedded(documents), settings)
    assert ranker.losses[-1] < ranker.losses[0] / 4
    assert first_is_relevant(run, qrels) != [True] * 4
    assert first_is_relevant(ranker(run), qrels) == [True] * 4


def test_the_same_seed_makes_the_same_model() -> None:
    run, qrels, documents = small_candidates()
    features = embedded(documents)
    state = torch.random.get_rng_state()
    one, two = (NeuralRanker.fit(run, qrels, features, SMALL) for _ in range(2))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert one.losses == two.losses
    assert one(run) == two(run)
    assert NeuralRanker.fit(run, qrels, features, replace(SMALL, seed=1)).losses != one.losses


def test_it_is_saved_and_loaded(tmp_path: Path) -> None:
    run, qrels, documents = small_candidates()
    ranker = NeuralRanker.fit(run, qrels, embedded(documents), SMALL, validation=(run, qrels))
    check_stage(ranker, run)
    ranker.save(tmp_path / "ranker")
    loaded = NeuralRanker.load(tmp_path / "ranker", ranker.features)
    assert loaded(run) == ranker(run)
    assert loaded.validations == ranker.validations
    assert (loaded.losses, loaded.settings) == (ranker.losses, ranker.settings)
    (tmp_path / "ranker" / "model.safetensors").write_bytes(b"cut")
    with pytest.raises(DamagedError, match="safetensors"):
        NeuralRanker.load(tmp_path / "ranker", ranker.features)


def test_training_stops_early_with_the_best_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    run, qrels, documents = small_candidates()
    losses = iter([0.5, 0.2, 0.3, 0.4, 0.1])
    monkeypatch.setattr("tamis.rankers.neural_ranker.mean_loss", lambda *_: next(losses))
    settings = replace(SMALL, epochs=9, val_freq=1, patience=2)
    features = embedded(documents)
    stopped = NeuralRanker.fit(run, qrels, features, settings, validation=(run, qrels))
    assert [one.epoch for one in stopped.validations] == [1, 2, 3, 4]
    best = NeuralRanker.fit(run, qrels, features, replace(settings, epochs=2))
    assert stopped(run) == best(run)


def test_bad_input() -> None:
    run, qrels, documents = small_candidates(3)
    with pytest.raises(InputError, match="embeddings of query"):
        NeuralRanker.fit(run, qrels, FeatureSource(columns=("score",)), SMALL)
    with pytest.raises(InputError, match="heads"):
        NeuralRanker.fit(run, qrels, embedded(documents), replace(SMALL, heads=3))
    with pytest.raises(InputError, match="too small"):
        NeuralRankerSettings(list_size=1)
    with pytest.raises(InputError, match="relevant"):
        NeuralRanker.fit(run, Qrels.from_dict({"q00": {"none": 1}}), embedded(documents), SMALL)


def test_empty_lists_are_ranked() -> None:
    run, qrels, documents = small_candidates(3)
    ranker = NeuralRanker.fit(run, qrels, embedded(documents), SMALL)
    empty = Run.from_dict({"q00": {}})
    assert ranker(empty.with_queries(run.queries)).sizes().sum() == 0
