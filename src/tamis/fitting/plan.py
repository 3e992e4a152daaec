"""The plan of a fit: its steps, what each costs, and which of them fit the time.

A few real texts are scored first; every cost is reckoned from that pace. Kinds of system add their
steps to a `Budget` one after the other, in the order of how often they help.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tamis.types import Scorer
from tamis.types.pipeline import score_texts

TRAINING_COST = 3.5
"""How many times as long as scoring a text takes to train on it."""
QUERY_TRAINING_COST = 7.0
"""The same for a query where only queries are encoded: a step of the optimizer costs as much."""
SIEVE_SECONDS = 3.0
"""What writing any sieve takes, its report and the cost of a query, measured in a new process:
1.9 s of processor time with BM25 alone."""
EXPORT_SECONDS = 6.0
"""What the export of the query encoder takes, most of it imports (all-MiniLM-L6-v2)."""
PACE_SAMPLE = 48
"""How many texts are scored to measure the pace."""
PLANNED_SHARE = 0.9
"""The share of the time that is planned for; the rest is a reserve."""
MAX_SELECTION_QUERIES = 600
"""On how many queries systems are compared at most where there is time to train in full."""
ENOUGH_SELECTION_QUERIES = 300
"""The same where there is not."""
HELD_OUT_SHARE = 1 / 3
"""The share of the judged queries that is held out where one part is."""
BASE_SCORING_SHARE = 0.6
"""The share of the time in which the base model may score candidates, where more is trained."""
TRAINING_SHARE = 0.8
"""The share of the time left that a training, and scoring with its model, may take."""
FOLDS = 3
MIN_QUERIES = 10
"""With fewer queries nothing is trained or tested."""
MAX_TRAINING_TEXTS = 8_000
"""How many texts a training takes at most: 250 steps of 16 pairs."""


@dataclass(frozen=True)
class Step:
    """One step: its key and name, what it does, what it costs, and whether it is planned."""

    key: str
    name: str
    what: str
    seconds: float
    planned: bool = True
    size: int = 0
    """How many texts are trained on (queries, where documents keep their embeddings), queries
    scored, or points measured."""
    wanted_size: int = 0
    """The size it would have with more time, where that decides how queries are held out."""


@dataclass(frozen=True)
class Plan:
    """The steps in order, and the number of queries to select and to test on."""

    steps: tuple[Step, ...]
    folds: int
    """In how many parts the judged queries are held out: each in turn, or one; 0 where nothing
    can be trained on them."""
    selection_queries: int
    test_queries: int
    pace: float
    """Seconds that a text takes to score."""

    def step(self, key: str) -> Step | None:
        """A planned step."""
        return next((step for step in self.steps if step.key == key and step.planned), None)

    def has(self, key: str) -> bool:
        """Whether a step is planned."""
        return self.step(key) is not None

    def seconds_of(self, key: str) -> float:
        """How long a step should take, planned or not; 0 where there is none."""
        return next((step.seconds for step in self.steps if step.key == key), 0.0)

    def size_of(self, key: str) -> int:
        """The size of a planned step; 0 where there is none."""
        step = self.step(key)
        return step.size if step else 0

    @property
    def seconds(self) -> float:
        """How long all that is planned should take."""
        return sum(step.seconds for step in self.steps if step.planned)


class PlanProgress:
    """Says which step of a plan begins, and about how long the rest takes.

    >>> steps = Step("bm25", "BM25", "", 3), Step("base", "base model", "", 60)
    >>> progress = PlanProgress(Plan(steps, 3, 100, 100, 0.01))
    >>> progress.begin("bm25", {}), progress.begin("bm25", {}), progress.begin("base", {"bm25": 2})
    ('step 1 of 2, about 63 s left: BM25', '', 'step 2 of 2, about 60 s left: base model')
    >>> progress = PlanProgress(Plan(steps, 3, 100, 100, 0.01))
    >>> progress.leave_out("base")
    >>> progress.begin("bm25", {})
    'step 1 of 1, about 3 s left: BM25'
    """

    def __init__(self, plan: Plan, begun: Iterable[str] = ()) -> None:
        self.steps = {step.key: step for step in plan.steps if step.planned}
        self.begun = {key for key in begun if key in self.steps}

    def leave_out(self, key: str) -> None:
        """Expect a step no longer, unless it has begun."""
        if key not in self.begun:
            self.steps.pop(key, None)

    def begin(self, key: str, spent: Mapping[str, float]) -> str:
        """The message where a step begins for the first time, else nothing; `spent` are the
        seconds that steps have taken so far.
        """
        if key in self.begun or key not in self.steps:
            return ""
        self.begun.add(key)
        seconds_left = sum(
            max(0.0, step.seconds - spent.get(step.key, 0.0))
            for step in self.steps.values()
            if step.key == key or step.key not in spent
        )
        time_left = (
            f"{seconds_left / 60:.0f} min" if seconds_left >= 90 else f"{seconds_left:.0f} s"
        )
        name = self.steps[key].name
        return f"step {len(self.begun)} of {len(self.steps)}, about {time_left} left: {name}"


def measured_pace(scorer: Scorer, query: str, texts: Sequence[str]) -> float:
    """Seconds that a text takes to score, on texts of the collection."""
    some = list(texts[:PACE_SAMPLE])
    score_texts(scorer, query, some[:4])  # warm up before the clock starts
    began = time.perf_counter()
    score_texts(scorer, query, some)
    return (time.perf_counter() - began) / max(1, len(some))


@dataclass(frozen=True)
class DataSizes:
    """What costs depend on."""

    num_documents: int
    judged: int
    """How many judged queries may be trained and selected on."""
    test: int
    log: int
    """How many queries may be trained on without their judgements."""
    depth: int
    passages: float
    """How many passages a document has on average."""
    base_kind: str
    """What kind of model the base is; empty where there is none."""
    teacher_seconds: float = 0.0
    """Seconds that a teacher takes to score a text; 0 where there is none."""
    word_vectors: bool = False
    encoded: bool = False
    """Whether the documents have embeddings already."""
    cached_share: float = 0.0
    """The share of passages whose embeddings are in the embedding cache."""
    learning_curve: bool = True
    """Whether the learning curve is wanted."""
    user_run: bool = False
    """Whether the user brings the candidates."""
    query_seconds: float = 0.0
    """Seconds that encoding a query takes."""
    exports: bool = False
    """Whether the query encoder is exported to ONNX."""
    can_train: bool = True
    """Whether the base model can be fine-tuned: it can be run by our own forward."""

    @property
    def trains_queries_only(self) -> bool:
        """Whether training changes how queries are encoded and leaves documents as they are."""
        return self.base_kind == "bi-encoder"

    @property
    def pairs_per_query(self) -> float:
        """How many texts a cross-encoder scores for a query: every candidate, each time anew."""
        return self.depth * self.passages

    def texts_per_query(self, compared: int) -> float:
        """How many texts the base scores for a query; a bi-encoder encodes what several queries
        share once.
        """
        if self.base_kind != "bi-encoder":
            return self.pairs_per_query
        queries = max(1, min(self.test, ENOUGH_SELECTION_QUERIES), compared)
        return 1 + min(self.pairs_per_query, self.num_documents * self.passages / queries)


@dataclass(frozen=True)
class TrainingCost:
    """What a training and the use of its model cost."""

    text: float
    """Seconds a text, over all folds."""
    scoring: float
    """Seconds of scoring all candidates with what was trained."""
    min_texts: int
    """Fewer are not worth the evaluation of the model."""
    max_texts: int = MAX_TRAINING_TEXTS
    share: float = TRAINING_SHARE


class Budget:
    """The time that is left while steps are added, and the numbers that costs depend on."""

    def __init__(
        self, data: DataSizes, folds: int, compared: int, pace: float, seconds: float, spent: float
    ) -> None:
        self.data, self.folds, self.compared, self.pace = data, folds, compared, pace
        self.left = seconds * PLANNED_SHARE - spent
        self.steps: list[Step] = []
        self.selection_queries, self.test_queries = data.judged, data.test
        self.has_base = False
        """Whether the base model is planned: what is trained starts from it."""
        self.has_embeddings = False
        """Whether the documents have embeddings, or will have."""

    @property
    def base_seconds(self) -> float:
        """Seconds that the base takes to score the candidates of a query, text by text."""
        return self.data.texts_per_query(self.compared) * self.pace

    @property
    def pair_seconds(self) -> float:
        """Seconds that a cross-encoder takes for a pair: it reads the query as well."""
        reads_query = self.data.query_seconds if self.data.trains_queries_only else 0.0
        return self.pace + reads_query

    def require(self, step: Step) -> None:
        """Add a step that is done in any case."""
        self.steps.append(step)
        self.left -= step.seconds

    def add(self, step: Step) -> bool:
        """Add a step, planned if it fits."""
        fits = step.seconds <= self.left
        self.steps.append(replace(step, planned=fits))
        self.left -= step.seconds if fits else 0
        return fits

    def add_training(self, key: str, name: str, what: str, cost: TrainingCost) -> Step | None:
        """Add a training on as many texts as fit; None where too few do, or the base cannot."""
        if not self.data.can_train:
            return None
        texts = (cost.share * self.left - cost.scoring) / max(cost.text, 1e-9)
        size = max(cost.min_texts, min(int(texts), cost.max_texts))
        step = Step(key, name, what, cost.text * size + cost.scoring, size=size)
        return step if self.add(step) else None

    def plan(self) -> Plan:
        """What was added."""
        return Plan(
            tuple(self.steps), self.folds, self.selection_queries, self.test_queries, self.pace
        )
