"""Products of float32 matrices on a processor: torch's own beside those of oneDNN.

    OMP_NUM_THREADS=1 python -m benchmarks.dense_product

The layers of a MiniLM: so many tokens by weights of 384 x 1152, 384 x 384, 384 x 1536 and
1536 x 384, with a bias. Tokens are drawn between two bounds, as batches have them, so that oneDNN
also pays for kernels of sizes that it has not seen. Processor time of one thread, in turn.
"""

from __future__ import annotations

import argparse
import random
import time

import torch
from torch.nn.functional import linear

from tamis.backends._dense_product import dense_product
from tamis.cores import processor

WEIGHTS = ((384, 1152), (384, 384), (384, 1536), (1536, 384))
TOKENS = ((8, 40), (200, 1024), (900, 1024))


def main() -> None:
    """Print billions of operations a second, and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    torch.set_num_threads(1)
    layers = [(torch.randn(wide, narrow), torch.randn(wide)) for narrow, wide in WEIGHTS]
    draw = random.Random(0)
    print(processor())
    print(f"{'tokens':>12} {'torch':>8} {'oneDNN':>8} {'ratio':>6}")
    with torch.inference_mode():
        for low, high in TOKENS:
            sizes = [draw.randint(low, high) for _ in range(given.batches)]
            seconds: dict[str, list[float]] = {"torch": [], "oneDNN": []}
            for _ in range(given.rounds):
                for name, product in (("torch", linear), ("oneDNN", dense_product)):
                    start = time.process_time()
                    for size in sizes:
                        for weight, bias in layers:
                            product(torch.ones(size, weight.shape[1]), weight, bias)
                    seconds[name].append(time.process_time() - start)
            operations = sum(2 * size * weight.numel() for size in sizes for weight, _ in layers)
            pace = {name: operations / sorted(all_)[len(all_) // 2] / 1e9
                    for name, all_ in seconds.items()}  # fmt: skip
            ratio = pace["oneDNN"] / pace["torch"]
            print(
                f"{low:>5} to {high:<4} {pace['torch']:>8.0f} {pace['oneDNN']:>8.0f} {ratio:>6.2f}"
            )


if __name__ == "__main__":
    main()
