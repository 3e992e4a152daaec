"""Training: losses, recipes, samplers and the one loop that turns examples into a model."""

from tamis.training.learning_curves import Curves, HeldOut, Start, curves
from tamis.training.loop import Job, Trained, train
from tamis.training.recipe import Recipe
from tamis.training.recipes import RECIPES, WORD_PAIRS, resolve
from tamis.training.validation import Validation, hold_out

__all__ = [
    "RECIPES",
    "WORD_PAIRS",
    "Curves",
    "HeldOut",
    "Job",
    "Recipe",
    "Start",
    "Trained",
    "Validation",
    "curves",
    "hold_out",
    "resolve",
    "train",
]
