"""The HTTP data API (`/api/v1`): a process of its own between HTTP clients and any Kafka cluster.

Put, fetch, commit. What is not plain Kafka is `dedup`: a repeated messageId gets the first answer.
Everything is built on Kafka primitives through `broker.client`, so Apache Kafka may stand behind
it. Start reading at `serve`, then `api`, `putting` and `sender`; why ids are kept as they are says
docs/decisions/020.
"""
