"""`hermes up`: the supervisor of broker, gateway, console and demo on one machine.

Not for production clusters (there an init system starts `hermes serve` and the console). Start
reading at `supervisor.py`; what the children are is decided in `plan.py`.
"""
