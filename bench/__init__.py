"""Numbers as ratios measured in one run: absolute times on a shared machine lie."""
