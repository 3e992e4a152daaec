"""Examples to train on, from whatever one has: `tamis.label.pseudo(index, queries)`."""

from tamis.labels.inputs import LabelInputs, open_inputs
from tamis.labels.makers import gold, pseudo, synthetic, teacher, transfer, weak

__all__ = ["LabelInputs", "gold", "open_inputs", "pseudo", "synthetic", "teacher", "transfer",
           "weak"]  # fmt: skip
