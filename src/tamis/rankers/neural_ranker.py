"""The neural ranker: a Transformer over a query's candidates, convolutions and a listwise hinge.

Layers, loss and optimiser are those of a passage re-ranking study (`docs/how-to/rankers.md`). It
does not give |P|, the sizes of batch, kernel, Transformer and scorer, nor rates: those are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.errors import InputError, TrainingError, require
from tamis.rankers._folder import ranker_spec, read_ranker, read_record, rescored, save_ranker
from tamis.rankers.features import (
    Features,
    FeatureSource,
    Floats,
    check_trained_for,
    open_features,
)
from tamis.rankers.samples import (
    FixedLists,
    check_trainable,
    relevant_rows,
    sample_fixed_lists,
)
from tamis.registry import Opening, check_keys
from tamis.types import Qrels, Run, Spec, Stage

KIND = "neural-ranker"
WEIGHTS_FILE = "model.safetensors"
CANDIDATES_PER_BATCH = 2048
"""How many candidates are scored at once, padding included; one list at least."""
Module = Any


@dataclass(frozen=True)
class NeuralRankerSettings:
    """How the network is built and trained.

    `list_size` is |P|. A margin of 0 is the study's, as printed: equal scores then cost nothing, so
    that a network may make all scores equal. `weight_decay` is the L2 penalty of NAdam. Every
    `val_freq` epochs the loss on validation queries is taken; training ends when `patience` of
    these in a row are no better, and the best weights are selected.
    """

    margin: float = 0.0
    list_size: int = 20
    batch_size: int = 32
    epochs: int = 60
    learning_rate: float = 1e-3
    weight_decay: float = 1e-5
    val_freq: int = 2
    patience: int = 3
    transformer_layers: int = 1
    heads: int = 6
    feed_forward: int = 512
    transformer_dropout: float = 0.1
    scorer_size: int = 128
    seed: int = 0

    def __post_init__(self) -> None:
        counts = (self.epochs, self.batch_size, self.val_freq, self.patience, self.heads)
        sizes = (self.feed_forward, self.scorer_size, self.list_size - 1)
        rest = (self.margin, self.weight_decay, self.transformer_layers, self.seed)
        if min(*counts, *sizes) < 1 or min(rest) < 0 or not self.learning_rate > 0:
            raise InputError(
                "a setting of the neural ranker is too small",
                hint="lists have two candidates at least; margin, weight_decay, "
                "transformer_layers and seed are from 0, others from 1",
            )
        if not 0 <= self.transformer_dropout < 1:
            raise InputError(
                f"a dropout of {self.transformer_dropout}", hint="say 0 to less than 1"
            )


@dataclass(frozen=True)
class Validation:
    """The loss on validation queries after so many epochs."""

    epoch: int
    loss: float


@dataclass(frozen=True, eq=False)
class NeuralRanker(Stage):
    """Ranks by a network's score from 0 to 1.

    A score depends on the other candidates of the query, which the Transformer sees; not on other
    queries or on the order. `losses` are the mean training losses of epochs.
    """

    network: Module
    features: FeatureSource
    settings: NeuralRankerSettings
    losses: tuple[float, ...] = ()
    validations: tuple[Validation, ...] = ()
    path: Path | None = None

    @classmethod
    def fit(
        cls,
        run: Run,
        qrels: Qrels,
        features: FeatureSource,
        settings: NeuralRankerSettings | None = None,
        *,
        validation: tuple[Run, Qrels] | None = None,
        on_epoch: Callable[[int, float], None] | None = None,
    ) -> NeuralRanker:
        """Train on a run's candidates, sampled anew each epoch; see `NeuralRankerSettings`.

        Without `validation`, all epochs are trained and the last weights are selected. `on_epoch`
        is called with the number of each epoch and its loss.
        """
        settings = settings or NeuralRankerSettings()
        train = _Lists.of(run, qrels, features)
        held_out = None if validation is None else _Lists.of(*validation, features)
        with _seeded(settings.seed):
            network = build_network(features, settings)
            losses, validations = _train(network, settings, train, held_out, on_epoch)
        return cls(network, features, settings, losses, validations)

    def __call__(self, run: Run) -> Run:
        return rescored(run, score_lists(self.network, self.features.of(run), run.offsets))

    def spec(self) -> Spec:
        """See `Stage.spec`; a ranker can be opened again once it is saved."""
        return ranker_spec(self, KIND, self.path, self.features)

    def save(self, folder: Path | str, *, force: bool = False) -> NeuralRanker:
        """Write the ranker's folder; the result is the ranker that lies there."""
        write = require("safetensors.torch").save_file
        path = save_ranker(
            folder, KIND, force,
            lambda place: write(self.network.state_dict(), place / WEIGHTS_FILE),
            settings=asdict(self.settings), features=self.features.to_json(),
            losses=list(self.losses), validations=[asdict(one) for one in self.validations],
        )  # fmt: skip
        return replace(self, path=path)

    @classmethod
    def load(cls, folder: Path | str, features: FeatureSource) -> NeuralRanker:
        """Open a folder that `save` wrote, with the features that it was trained with."""
        path = Path(folder)
        facts = read_ranker(path, KIND, "features", "losses", "validations")
        check_trained_for(features, facts["features"], path)
        settings = read_record(NeuralRankerSettings, facts["settings"], path)
        with _seeded(settings.seed):
            network = build_network(features, settings)
        network.load_state_dict(require("safetensors.torch").load_file(path / WEIGHTS_FILE))
        network.eval()
        validations = tuple(read_record(Validation, one, path) for one in facts["validations"])
        return cls(network, features, settings, tuple(facts["losses"]), validations, path)


def build_network(features: FeatureSource, settings: NeuralRankerSettings) -> Module:
    """A network with weights by chance."""
    require("torch", "safetensors")
    from tamis.rankers._neural_network import Network

    if features.embedder is None:
        raise InputError(
            "the neural ranker reads embeddings of query and passage", hint="give an embedder"
        )
    dimension = features.embedder.dimension
    if dimension % settings.heads or dimension < 4:
        raise InputError(
            f"embeddings of {dimension} numbers cannot have {settings.heads} attention heads",
            hint="give heads that divide the dimension, which is 4 at least",
        )
    return Network(
        dimension, len(features.columns), settings.transformer_layers, settings.heads,
        settings.feed_forward, settings.transformer_dropout, settings.scorer_size,
    )  # fmt: skip


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Torch draws from this seed in the block and goes on as before after it."""
    torch = require("torch")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


@dataclass(frozen=True, eq=False)
class _Lists:
    """The candidates that are learnt from, or validated on."""

    features: Features
    offsets: NDArray[np.int64]
    relevant: NDArray[np.bool_]

    @classmethod
    def of(cls, run: Run, qrels: Qrels, features: FeatureSource) -> _Lists:
        relevant = relevant_rows(run, qrels)
        check_trainable(run, relevant)
        return cls(features.of(run), run.offsets, relevant)

    def sample(self, size: int, rng: np.random.Generator) -> FixedLists:
        lists = sample_fixed_lists(self.offsets, self.relevant, size, rng, self.features.passage)
        if not len(lists):
            raise InputError(
                "no list has both a relevant candidate and another",
                hint="give more queries or candidates, or longer lists (list_size)",
            )
        return lists


def _train(
    network: Module, settings: NeuralRankerSettings, train: _Lists, held_out: _Lists | None,
    on_epoch: Callable[[int, float], None] | None,
) -> tuple[tuple[float, ...], tuple[Validation, ...]]:  # fmt: skip
    """Train a network in place; the loss of each epoch, and that on validation queries."""
    optimizer = require("torch").optim.NAdam(
        network.parameters(), settings.learning_rate, weight_decay=settings.weight_decay
    )
    rng = np.random.default_rng(settings.seed)
    fixed = None
    if held_out is not None:
        fixed = held_out.sample(settings.list_size, np.random.default_rng(settings.seed))
    losses, validations = list[float](), list[Validation]()
    best: dict[str, Any] | None = None
    for epoch in range(1, settings.epochs + 1):
        lists = train.sample(settings.list_size, rng)
        losses.append(_train_epoch(network, optimizer, settings, train.features, lists, rng))
        if on_epoch is not None:
            on_epoch(epoch, losses[-1])
        if held_out is None or fixed is None or epoch % settings.val_freq:
            continue
        loss = mean_loss(network, settings, held_out.features, fixed)
        if not validations or loss < min(one.loss for one in validations):
            best = {name: value.clone() for name, value in network.state_dict().items()}
        validations.append(Validation(epoch, loss))
        if _has_stopped_improving(validations, settings.patience):
            break
    if best is not None:
        network.load_state_dict(best)
    network.eval()
    return tuple(losses), tuple(validations)


def _has_stopped_improving(validations: list[Validation], patience: int) -> bool:
    losses = [one.loss for one in validations]
    return len(losses) - 1 - losses.index(min(losses)) >= patience


def _train_epoch(
    network: Module, optimizer: Any, settings: NeuralRankerSettings, features: Features,
    lists: FixedLists, rng: np.random.Generator,
) -> float:  # fmt: skip
    """One pass over all lists, in an order by chance; their mean loss, each before its step."""
    network.train()
    order, total = rng.permutation(len(lists)), 0.0
    for start in range(0, len(order), settings.batch_size):
        batch = order[start : start + settings.batch_size]
        loss = _loss(network, settings, features, lists, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(batch)
    if not np.isfinite(total):
        raise TrainingError("the loss is no number any more", hint="lower the learning rate")
    return total / len(order)


def mean_loss(
    network: Module, settings: NeuralRankerSettings, features: Features, lists: FixedLists
) -> float:
    """The mean loss of some lists, without dropout."""
    network.eval()
    total = 0.0
    with require("torch").no_grad():
        for start in range(0, len(lists), settings.batch_size):
            batch = np.arange(start, min(start + settings.batch_size, len(lists)))
            total += _loss(network, settings, features, lists, batch).item() * len(batch)
    return total / len(lists)


def _loss(
    network: Module, settings: NeuralRankerSettings, features: Features, lists: FixedLists,
    batch: NDArray[np.int64],
) -> Any:  # fmt: skip
    from tamis.rankers._neural_network import listwise_hinge

    torch = require("torch")
    real = torch.from_numpy(lists.is_real[batch])
    # a filled-in passage belongs to another query, so the query is that of the list
    query = features.query[lists.rows[batch, 0]]
    scores = _scores(network, features, query, lists.rows[batch], real)
    relevant = torch.from_numpy(lists.is_relevant[batch])
    return listwise_hinge(scores, relevant, real, settings.margin)


def _scores(
    network: Module, features: Features, query: NDArray[np.int64], rows: NDArray[np.int64],
    real: Any,
) -> Any:  # fmt: skip
    """The score of every row; one that was filled in from another query has columns of 0, since
    its own say how well it goes with that query."""
    torch = require("torch")
    is_own = features.query[rows] == query[:, None]
    return network(
        torch.from_numpy(features.queries[query]),
        torch.from_numpy(features.passages[features.passage[rows]]),
        torch.from_numpy(features.columns[rows] * is_own[:, :, None]),
        real,
    )


def score_lists(network: Module, features: Features, offsets: NDArray[np.int64]) -> Floats:
    """The score of every row; lists of like length are scored together, padded to the longest."""
    torch = require("torch")
    network.eval()
    sizes = np.diff(offsets)
    scores = np.zeros(len(features), np.float32)
    order = np.argsort(sizes, kind="stable")[::-1]
    order, start = order[sizes[order] > 0], 0
    with torch.no_grad():
        while start < len(order):
            longest = int(sizes[order[start]])
            lists = order[start : start + max(1, CANDIDATES_PER_BATCH // longest)]
            place = np.arange(longest)
            real = place < sizes[lists][:, None]
            rows = np.where(real, offsets[lists][:, None] + place, 0)
            query = features.query[offsets[lists]]
            values = _scores(network, features, query, rows, torch.from_numpy(real)).numpy()
            scores[rows[real]] = values[real]
            start += len(lists)
    return scores


def open_stage(values: Spec, opening: Opening) -> NeuralRanker:
    """See `registry.OPENERS`."""
    check_keys("a neural ranker", values, {"path": str, "features": dict})
    features = open_features(values["features"], opening)
    return NeuralRanker.load(opening.path(values["path"]), features)
