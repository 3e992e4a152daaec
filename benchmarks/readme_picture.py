"""The picture of the README, from the sieve of the demo.

tamis demo
python -m benchmarks.readme_picture demo.sieve docs/images/demo.svg
"""

from __future__ import annotations

import sys
from pathlib import Path

import tamis
from tamis.fitting.report import draw_means, main_means
from tamis.pages.charts import MEAN_WIDTH, mean_height
from tamis.pages.svg import svg_file


def main(sieve: str, path: str) -> None:
    """Draw the selected system and its baselines into a file."""
    result = tamis.load_sieve(sieve).result
    rows = main_means(result)
    drawing = draw_means(result, rows)
    title = f"{result.selected} on {result.collection}"
    Path(path).write_text(svg_file(title, drawing, MEAN_WIDTH, mean_height(rows)), "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
