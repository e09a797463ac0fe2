"""`hermes demo`: an order service and six groups that read its events, through librdkafka.

Ordinary Kafka clients and nothing of the broker's: the same workload runs against any cluster.
"""
