"""Speed against peers: everything in one interleaved run, reported as ratios."""
