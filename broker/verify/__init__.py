"""`hermes check` and `hermes test`: what proves this repository, here and in CI alike."""
