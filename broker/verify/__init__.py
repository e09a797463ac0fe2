"""`hermes check` and `hermes test`: what proves this repository."""
