"""`python -m benchmarks [NAME …]`: run the benchmarks, all unless named."""

import importlib
import sys

NAMES = ("evaluation", "scorers", "training")

for name in sys.argv[1:] or NAMES:
    importlib.import_module(f"benchmarks.{name}").main()
