"""`hermes up`: the supervisor of broker, console and demo."""
