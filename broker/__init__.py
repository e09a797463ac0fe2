"""HermesMQ's engine: a broker on one event loop, which Kafka's own clients talk to.

Start with `ARCHITECTURE.md`: how a record travels, who may import whom, what goes where.
"""
