"""The HermesMQ engine: a standalone asyncio broker that speaks the Apache Kafka wire protocol.

Start with `ARCHITECTURE.md`: the data path, the import rule, where to add what.
"""
