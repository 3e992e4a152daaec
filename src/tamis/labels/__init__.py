"""Labels: judgements, first-stage rankings, scores and teachers turned into examples."""

from tamis.labels.example_files import read_examples, write_examples
from tamis.labels.examples import Examples, join_examples

__all__ = ["Examples", "join_examples", "read_examples", "write_examples"]
