"""What a fit compares: systems, and the kinds of system they come from.

A kind says whether the data allow it, what it costs, how it is trained on a fold, and which source
or stage it becomes. To add one, add a file to `systems/` and a line to the tuple there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from tamis.errors import InputError
from tamis.fitting.plan import Budget, DataSizes, Plan, Step
from tamis.fitting.workspace import Timing
from tamis.pipeline.documents import documents_spec
from tamis.pipeline.interpolation import fuse_scores, interpolate_spec
from tamis.pipeline.rerank import rerank_spec
from tamis.registry import NO_OPENERS, Openers, open_source
from tamis.text.passages import parse_spec
from tamis.types import Queries, Query, Run, Spec

if TYPE_CHECKING:
    from tamis.fitting.candidates import RetrieverRuns
    from tamis.fitting.context import FitContext, FitInputs
    from tamis.fitting.folds import Fold

FUSION_WEIGHTS = (0.25, 0.5, 0.75)
"""How much a re-ranker counts beside what it is fused with."""
DEFAULT_FUSION_WEIGHT = 0.75
"""The same for the default system where there is no hybrid: rarely far from the best weight
(docs/explanation/guard.md)."""
WARM_UP = Queries.of([Query("warm-up", "words to warm up with")])


class SystemKind(ABC):
    """A kind of system: a `Retriever`, or a `Reranker` of what one retrieves."""

    key: str
    """Names it in files and plans; never shown."""
    name: str
    """What people are shown; nothing is read from it."""
    description: str = ""
    openers: ClassVar[Openers] = NO_OPENERS
    """What opens sources and stages of its own, by role and kind, as `open_source` takes them."""

    def is_possible(self, data: DataSizes) -> bool:
        """Whether the data allow it."""
        return True

    def seconds(self, budget: Budget) -> float:
        """What it costs."""
        return 0.0

    def plan(self, budget: Budget) -> None:
        """Add its step to the plan; a kind that has several, or is trained, overrides this."""
        if self.is_possible(budget.data):
            budget.add(Step(self.key, self.name, self.description, self.seconds(budget)))

    def is_planned(self, plan: Plan) -> bool:
        """Whether the plan has it."""
        return plan.has(self.key)

    def timing(self, activity: str, fold: str = "") -> Timing:
        """What is timed when it is worked on."""
        return Timing(self.key, activity, self.key, fold)


class Retriever(SystemKind):
    """A kind of system that finds documents."""

    lexical_column: ClassVar[str | None] = None
    """The column of its runs that has the lexical score, where their own score is another."""
    has_comparable_scores: ClassVar[bool] = False
    """Whether its scores can be compared from query to query, as BM25's can."""
    in_words: ClassVar[str] = ""
    """What a sentence says of it, where that is not "NAME finds documents"."""
    is_users_own: ClassVar[bool] = False
    """Whether it is the user's own, which nothing selected may be below."""

    @abstractmethod
    def prepare(self, fit: FitInputs) -> Spec:
        """Make it ready, such as tune it or encode documents; the source it becomes."""

    def retrieve(self, source: Spec, fit: FitInputs) -> dict[str, Run]:
        """The documents it finds for each set of queries, by the name of the set."""
        retriever = open_source(source, threads=fit.request.threads, openers=self.openers)
        retriever.search(WARM_UP, fit.request.depth)
        return {
            name: fit.work.run(
                f"{self.key} {name}",
                partial(retriever.search, queries, fit.request.depth),
                self.timing("search", name),
            )
            for name, queries in fit.query_sets.items()
        }

    def supplies_candidates(self, fit: FitInputs, runs: Mapping[str, RetrieverRuns]) -> bool:
        """Whether re-rankers score what it finds; of several that say so, the last in the tuple.

        `runs` has what it and the retrievers before it found, by key.
        """
        return False

    def note(self, fit: FitInputs) -> str:
        """What the report says of it."""
        return ""


class Reranker(SystemKind):
    """A kind of system that scores the candidates of a retriever anew."""

    needs_folds: ClassVar[bool] = False
    """Whether judged queries are held out for it to be compared on."""
    trains_on_judgements: ClassVar[bool] = True
    """Whether its last training is on the judged queries of a fold; else one serves all folds."""
    has_embeddings: ClassVar[bool] = False
    """Whether it scores by embeddings: then it is fused with the lexical score of a hybrid, which
    has embeddings in it already."""
    is_default: ClassVar[bool] = False
    """Whether the default system is made of it where there is no hybrid."""
    has_learning_curve: ClassVar[bool] = False
    """Whether the learning curve is measured with it."""
    is_tested_only_if_selected: ClassVar[bool] = False
    trainings: tuple[str, ...] = ()
    """The keys of the trainings behind it, its own last."""

    @property
    def complexity_group(self) -> str:
        """What one training made is equally complex."""
        return self.trainings[-1] if self.trainings else self.key

    def is_trained(self, fold: Fold, fit: FitContext) -> bool:
        """Whether nothing is left to train for a fold."""
        from tamis.fitting.candidate_models import is_trained, model_folder

        if not self.trainings:
            return True
        trained = self.trainings[-1]
        return is_trained(model_folder(fit, trained, fold if self.trains_on_judgements else None))

    def train_fold(self, fold: Fold, fit: FitContext) -> Path | None:
        """Train on the queries of a fold; the folder of the model, if there is one."""
        return None

    def stage(self, model: Path | None, fit: FitInputs) -> Spec:
        """The stage that a model becomes: it scores the candidates of a run."""
        if model is None:
            raise InputError(f"{self.key} has neither a model nor a stage of its own")
        return rerank_spec(
            fit.scorer_spec(model),
            documents_spec(fit.index),
            parse_spec(fit.passages),
            model=self.key,
            depth=fit.request.depth,
            missing="skip",
        )


@dataclass(frozen=True)
class System:
    """One way to rank: a retriever, perhaps a re-ranker, perhaps fused with the score before.

    The lower its `complexity`, the sooner it is selected. Its name is shown and never parsed.
    """

    name: str
    retriever: Retriever
    reranker: Reranker | None = None
    weight: float | None = None
    """How much the re-ranker counts beside the score before; None where it alone decides, 0 where
    the order of the retriever stays and the re-ranker only tells how probable an answer is."""
    complexity: int = 1

    @property
    def reorders(self) -> bool:
        """Whether the re-ranker decides on the order."""
        return self.reranker is not None and self.weight != 0

    @property
    def fusion_column(self) -> str | None:
        """The column with the score that the re-ranker is fused with, if not the run's own."""
        if self.reranker is None or not self.weight or not self.reranker.has_embeddings:
            return None
        return self.retriever.lexical_column

    def stage(self, model: Path | None, fit: FitInputs) -> Spec | None:
        """The stage behind the retriever; None where there is none."""
        if self.reranker is None:
            return None
        scored = self.reranker.stage(model, fit)
        if self.weight is None:
            return scored
        return interpolate_spec(scored, self.weight, self.fusion_column)

    def rank(self, candidates: Run, scored: Run | None) -> Run:
        """What the stage makes of candidates, from what the re-ranker scored."""
        if self.reranker is None or scored is None:
            return candidates
        if self.weight is None:
            return scored
        return fuse_scores(candidates, scored, self.weight, self.fusion_column)


def all_systems(
    retrievers: Sequence[Retriever], candidates: Retriever, rerankers: Sequence[Reranker]
) -> list[System]:
    """Every system of these retrievers, and of the re-rankers on the `candidates` of one of them.

    The default is the least complex: the hybrid, or without one the base model fused so that it
    counts `DEFAULT_FUSION_WEIGHT`, or without that the retriever alone. Then come all that are not
    trained, then all that one training made, alone and fused.
    """
    hybrid = candidates.lexical_column is not None
    base = next((reranker for reranker in rerankers if reranker.is_default), None)
    systems = [System(retriever.name, retriever) for retriever in retrievers]
    place = [*retrievers].index(candidates)
    if base is None:
        systems[place] = System(candidates.name, candidates, complexity=0)
    elif hybrid:
        systems[place] = System(candidates.name, candidates, base, 0.0, complexity=0)
    groups = list(dict.fromkeys(reranker.complexity_group for reranker in rerankers))
    for reranker in rerankers:
        complexity = 1 + groups.index(reranker.complexity_group)
        systems.append(System(reranker.name, candidates, reranker, None, complexity))
        fused_with = "BM25" if hybrid and reranker.has_embeddings else candidates.name
        for weight in FUSION_WEIGHTS:
            name = f"{reranker.name} + {fused_with} ({weight:.2f})".replace("(0.", "(.")
            is_default = reranker is base and weight == DEFAULT_FUSION_WEIGHT and not hybrid
            level = 0 if is_default else complexity
            systems.append(System(name, candidates, reranker, weight, level))
    return systems


def default_system(systems: Sequence[System]) -> System:
    """The system that is selected where no judgements speak for another."""
    return min(systems, key=lambda system: system.complexity)
