"""What is trained: a model, its optimizer, and the examples, step by step.

In several processes each takes its part of the instances of a step, gradients are added, and every
process takes the same step; the first alone validates and writes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from tamis.backends.batches import single_threaded_torch, usable_threads
from tamis.backends.network import is_out_of_memory
from tamis.errors import TrainingError, require
from tamis.evaluation import t_interval
from tamis.labels.example_texts import row_texts, texts_digest
from tamis.labels.examples import Examples, digest
from tamis.models.base_models import find_base, model_packages, sha256
from tamis.pipeline.document_lookup import DocumentLookup
from tamis.pipeline.stored_embeddings import stored_texts
from tamis.scorers.embedding_cache import EmbeddingCache
from tamis.scorers.model_manifest import documents_of
from tamis.training import checkpoints
from tamis.training._gradient import clear_gradients
from tamis.training.checkpoints import Check, History
from tamis.training.divergence import find_divergence, has_collapsed
from tamis.training.losses import LossFunction, loss_of
from tamis.training.precision import DEFAULT_PLACEMENT, Placement
from tamis.training.processes import Processes, broadcast, processes_for
from tamis.training.recipe import Recipe
from tamis.training.samplers import Batch, Epoch, batches, counts, targets
from tamis.training.schedules import optimizer_of, parameter_groups, rate_at, set_rates
from tamis.training.trainable import Trainable, accumulate, open_trainable
from tamis.training.validation import Validation, sample_rows
from tamis.types import Pairs

_log = logging.getLogger(__name__)
MIN_VALIDATIONS = 5
"""Where the recipe does not say when to validate."""
Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Job:
    """What is to be trained, from what, on what."""

    examples: Examples
    """With the texts of their queries."""
    lookup: DocumentLookup
    recipe: Recipe
    base: Path | str
    out: Path
    validation: Validation | None = None
    threads: int | None = None
    random_weights: bool = False
    """Whether only the shape of the base is taken, not what it has learnt."""
    embedding_cache: EmbeddingCache | None = None
    """Embeddings that the base gives to texts, where it only learns to read queries."""
    placement: Placement = DEFAULT_PLACEMENT
    """Where it is trained, and in which precision."""

    @property
    def selects(self) -> bool:
        """Whether validations select the state that is kept."""
        return self.validation is not None and self.validation.selects


@dataclass(eq=False)
class Trainer:
    """A model being trained."""

    job: Job
    processes: Processes
    model: Trainable
    optimizer: Any
    loss: LossFunction
    values: Any
    counts: dict[str, int]
    steps: int
    budget: int = 0
    """How many tokens go through the model at a time; fewer where the device lacks memory."""
    _epoch: tuple[int, Epoch | None] = (-1, None)

    @classmethod
    def of(cls, job: Job, steps: int | None = None) -> Trainer:
        """A trainer at its first step, of so many or as many as the recipe says."""
        recipe = job.recipe
        require("torch", *model_packages(job.base))
        processes = processes_for(job.placement.device)
        model = open_trainable(
            job.base,
            scorer=recipe.scorer,
            outputs=recipe.outputs if recipe.scorer == "cross-encoder" else None,
            max_length=recipe.max_length,
            document_tokens=recipe.document_tokens,
            dropout=recipe.dropout,
            words=recipe.words if recipe.scorer == "target-words" else None,
            vocabulary=recipe.loss == "target-words" and recipe.word_loss == "vocabulary",
            fresh_head=recipe.fresh_head,
            fixed_documents=recipe.fixed_documents,
            random_weights=job.random_weights,
            seed=recipe.seed,
            embedding_cache=job.embedding_cache,
            threads=job.threads or max(1, usable_threads(None) // int(processes.num_processes)),
            placement=job.placement,
            device=str(processes.device),
        )
        if model.documents:
            ids = job.examples.docs.take(np.unique(job.examples.doc))
            for stored in stored_texts(job.lookup, ids, model.documents):
                model.documents.remember(*stored)
        values, example_counts = targets(job.examples, recipe.loss), counts(job.examples, recipe)
        return cls(
            job,
            processes,
            model,
            _optimizer(model, recipe),
            loss_of(recipe, model.manifest.word_ids),
            values,
            example_counts,
            steps or recipe.total_steps(example_counts["steps"], example_counts["queries"]),
        )

    def __post_init__(self) -> None:
        self.budget = self.budget or self.full_budget

    @property
    def every(self) -> int:
        """After how many steps the model is validated."""
        if self.job.recipe.validate_every:
            return self.job.recipe.validate_every
        return min(self.counts["steps"], max(1, -(-self.steps // MIN_VALIDATIONS)))

    @property
    def threads(self) -> int:
        """On how many threads this process learns."""
        available = usable_threads(self.job.threads)
        return (
            available
            if self.job.threads
            else max(1, available // int(self.processes.num_processes))
        )

    def plan(self) -> dict[str, Any]:
        """What must be the same when the training goes on."""
        job = self.job
        validation = digest(job.validation.examples) if job.validation else None
        return {
            "recipe": job.recipe.record(),
            "steps": self.steps,
            "examples": digest(job.examples),
            "texts": texts_digest(job.examples, job.lookup),
            "validation": validation,
            "base": sha256(find_base(job.base)),
            "documents": sha256(documents_of(find_base(job.base))),
            "random_weights": job.random_weights,
            "threads": self.threads,
            "processes": int(self.processes.num_processes),
            **({} if self.model.backend == "fast" else {"runtime": self.runtime}),
        }

    @property
    def runtime(self) -> str:
        """What runs the model, where and in which precision."""
        precision = self.model.precision
        runtime = f"{self.model.backend} on {precision.device} in {precision.dtype}"
        if self.job.placement.gradient_checkpointing:
            runtime += " with gradient checkpointing"
        return runtime

    def learn(self, history: History, work: Path) -> None:
        """Take the next step; a loss that is no number, or that rises, ends the training."""
        recipe, step, began = self.job.recipe, history.step, time.monotonic()
        batch = self.batch(step)
        loss, truncated_tokens = self.gradient(batch, step)
        history.losses.append(loss / len(batch))
        problem = find_divergence(history.losses)
        if not problem and not self.advance(rate_at(step, self.steps, recipe)):
            problem = f"the gradient of step {step + 1} is no number"
        if problem:
            raise self._training_error(problem, work)
        history.texts += sum(map(len, batch))
        history.truncated_tokens += truncated_tokens
        history.seconds += time.monotonic() - began

    def advance(self, factor: float) -> bool:
        """Let the optimizer take a step at its rates times a factor, if there is one to take."""
        torch, precision = require("torch"), self.model.precision
        with single_threaded_torch(torch) if self.threads == 1 else nullcontext():
            precision.unscale(self.optimizer)
            norm = torch.nn.utils.clip_grad_norm_(
                self.model.parameters(), self.job.recipe.max_grad_norm or np.inf
            )
            set_rates(self.optimizer, factor)
            can_go_on = precision.step(self.optimizer, is_finite=bool(torch.isfinite(norm)))
        clear_gradients(self.model.parameters())
        return can_go_on

    def reset_optimizer(self) -> None:
        """Begin with a new optimizer, as if no step had been taken."""
        self.optimizer = _optimizer(self.model, self.job.recipe)

    def batch(self, step: int) -> Batch:
        """The instances that a step learns from."""
        epoch_number, place = divmod(step, self.counts["steps"])
        if self._epoch[0] != epoch_number:
            self._epoch = epoch_number, batches(self.job.examples, self.job.recipe, epoch_number)
        epoch = self._epoch[1]
        assert epoch is not None
        return epoch[place]

    def gradient(self, batch: Batch, step: int) -> tuple[float, int]:
        """Add up the gradient of a batch; its summed loss, and how many texts were truncated."""
        torch, job = require("torch"), self.job
        rank, num_processes = self.processes.process_index, self.processes.num_processes
        torch.manual_seed(_seed(job.recipe.seed, step, rank))
        own_batch = batch[rank::num_processes]
        rows = np.concatenate(own_batch) if own_batch else np.zeros(0, np.int64)
        prepared = self.model.prepare(*row_texts(job.examples, rows, job.lookup))
        truncated_tokens = sum(text.truncated_tokens > 0 for text in prepared)
        bounds = np.cumsum([0, *map(len, own_batch)]).tolist()
        instances = [prepared[a:b] for a, b in pairwise(bounds)]
        self.model.train()
        loss = 0.0
        while own_batch:
            try:
                loss = accumulate(
                    self.model,
                    instances,
                    [self.values[instance] for instance in own_batch],
                    self.loss,
                    num_instances=len(batch),
                    budget=self.budget,
                    threads=self.threads,
                    loss_scale=self.model.precision.loss_scale,
                )
                break
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
            self._halve(max(sum(map(len, instance)) for instance in instances))
            torch.manual_seed(_seed(job.recipe.seed, step, rank))
        return (
            self._reduce(loss, truncated_tokens) if num_processes > 1 else (loss, truncated_tokens)
        )

    def _halve(self, largest: int) -> None:
        """Let half as many tokens go through the model at a time, after its device had too little
        memory for them; `largest` are those of an instance, which is not divided.
        """
        device = self.model.precision.device
        if self.budget < largest:
            raise TrainingError(
                f"an instance of {largest} tokens does not fit into the memory of {device}",
                hint="--gradient-checkpointing, or a smaller max_length or list_size",
            )
        if self.budget == self.full_budget:
            _log.warning("%s is out of memory: fewer texts are run at a time", device)
        clear_gradients(self.model.parameters())
        self.budget //= 2
        if device.startswith("cuda"):
            require("torch").cuda.empty_cache()

    @property
    def full_budget(self) -> int:
        """How many tokens go through the model at a time where its device has room for them."""
        on_cpu = self.model.precision.device == "cpu"
        return self.job.recipe.micro_batch_tokens * (1 if on_cpu else GPU_FACTOR)

    def _reduce(self, loss: float, truncated_tokens: int) -> tuple[float, int]:
        """The same of all processes, after their gradients were added."""
        torch = require("torch")
        for parameter in self.model.parameters():
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            parameter.grad = self.processes.reduce(parameter.grad, "sum")
        both = torch.tensor(
            [loss, truncated_tokens], dtype=torch.float64, device=self.processes.device
        )
        total, truncated_tokens = self.processes.reduce(both, "sum").tolist()
        return total, int(truncated_tokens)

    def check(self, history: History, work: Path, *, validate: bool = True) -> None:
        """Validate the model and keep it; one that gives all texts the same score is refused."""
        began = time.monotonic()
        value, interval, same = self.on_main_process(
            lambda: self._validate(self.job.validation if validate else None)
        )
        if value is not None:
            history.checks.append(Check(history.step, value, interval))
        if same and history.step:
            raise self._training_error("all texts of a query have the same score", work)
        self.keep(history, work)
        history.checked += time.monotonic() - began

    def _validate(
        self, validation: Validation | None
    ) -> tuple[float | None, tuple[float, float] | None, bool]:
        """The measure on the validation examples, its interval, and whether all their scores are
        the same.

        Without such examples there is no measure, and some that were learnt from are scored.
        """
        examples = self.job.examples
        scored_examples = (
            validation.examples if validation else sample_rows(examples, self.job.recipe.seed)
        )
        scores = self.scores(scored_examples)
        same = has_collapsed(scores, scored_examples.offsets)
        if validation is None:
            return None, None, same
        values = validation.values(scores)
        interval = t_interval(values) if len(values) > 1 else None
        bounds = None if interval is None else (max(interval.low, 0.0), min(interval.high, 1.0))
        return float(values.mean()), bounds, same

    def scores(self, examples: Examples) -> Any:
        """The scores of all rows of some examples by the model as it is now."""
        scorer, scores = (
            self.model.scorer(threads=self.threads),
            np.empty(len(examples), np.float32),
        )
        for start in range(0, len(examples), ROWS_PER_BATCH):
            rows = np.arange(start, min(start + ROWS_PER_BATCH, len(examples)))
            queries, texts = row_texts(examples, rows, self.job.lookup)
            index = np.stack([np.arange(len(rows))] * 2, 1).astype(np.int32)
            scores[rows] = scorer.score(Pairs(queries, texts, index)).values
        return scores

    def keep(self, history: History, work: Path) -> None:
        """Write a checkpoint."""
        self.on_main_process(lambda: checkpoints.save(work, self.model, self.optimizer, history))

    def restore(self, work: Path) -> History:
        """Put everything into the state of the last checkpoint."""
        saved_steps = checkpoints.steps(work)
        if not saved_steps:
            return History()
        self.model.restore(checkpoints.model_at(work, saved_steps[-1]))
        checkpoints.load_optimizer(work, saved_steps[-1], self.optimizer)
        self.model.precision.restore(checkpoints.read_loss_scale(work, saved_steps[-1]))
        return checkpoints.read_history(work, saved_steps[-1])

    def is_patience_over(self, history: History) -> bool:
        """Whether the validations since the best are as many as the recipe bears."""
        patience = self.job.recipe.patience if self.job.selects else None
        return patience is not None and history.since_best() >= patience

    def describe(self, history: History) -> str:
        """Where training stands, for the line of progress."""
        recent = history.losses[-LOSS_AVERAGE_STEPS:]
        text = f"training, loss {sum(recent) / len(recent):.3f}"
        if history.checks and self.job.validation:
            text += f", {self.job.validation.measure} {history.checks[-1].value:.3f}"
        return f"{text}, {history.texts / max(history.seconds, 1e-9):.1f} texts per second"

    def on_main_process(self, work: Callable[[], Result]) -> Result:
        """The result of the first process, sent to all."""
        if self.processes.num_processes == 1:
            return work()
        results = [work() if self.processes.is_main_process else None]
        return broadcast(results)[0]  # type: ignore[no-any-return]

    def _training_error(self, problem: str, work: Path) -> TrainingError:
        saved_steps = checkpoints.steps(work)
        hint = "set a smaller rate, a longer warm-up, or another loss"
        if saved_steps:
            model = checkpoints.model_at(work, saved_steps[-1])
            hint += f"; the model after step {saved_steps[-1]} is in {model}"
        return TrainingError(f"training was stopped: {problem}", hint=hint)


ROWS_PER_BATCH = 4096
GPU_FACTOR = 16
"""How many times as many tokens go through a model on a GPU at a time as on a CPU."""
LOSS_AVERAGE_STEPS = 20


def _optimizer(model: Trainable, recipe: Recipe) -> Any:
    return optimizer_of(
        parameter_groups(model.named_parameters(), recipe, model.head_names), recipe
    )


def _seed(*numbers: int) -> int:
    """A seed for each step of each process, from the recipe's."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))
