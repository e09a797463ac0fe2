"""What is left out of the foreign suites: a test, the API it needs, and what it does with it.

Only an API that HermesMQ does not offer may stand here. An entry is a path of the suite, a test of
it (all its parameters), or `path:function` for a step that a test calls by that name and that is
then passed over. One that matches nothing fails the run (`adapter/hermes_judge.py`).
"""

from __future__ import annotations

from typing import Final, NamedTuple


class OutOfScope(NamedTuple):
    """`api` is the name by which docs/judges.md sums up."""

    test: str
    api: str
    reason: str


_KAFKA_PYTHON_ADMIN: Final = "test/integration/test_admin_integration.py"
_KAFKA_PYTHON_CONSUMER: Final = "test/integration/test_consumer_integration.py"
_KAFKA_PYTHON_PRODUCER: Final = "test/integration/test_producer_integration.py"
_SCHEMA_REGISTRY: Final = OutOfScope(
    "tests/integration/schema_registry", "Schema Registry", "the HTTP API of another product"
)

OUT_OF_SCOPE: Final[dict[str, tuple[OutOfScope, ...]]] = {
    "kafka-python": (
        OutOfScope(
            "test/integration/test_sasl_integration.py",
            "SaslAuthenticate",
            "start a broker with SASL PLAIN and SCRAM",
        ),
        OutOfScope(
            "test/integration/test_ssl_integration.py", "TLS", "start a broker with certificates"
        ),
        OutOfScope(
            f"{_KAFKA_PYTHON_ADMIN}::test_create_describe_delete_acls",
            "ACLs",
            "creates, describes and deletes an ACL",
        ),
        OutOfScope(
            f"{_KAFKA_PYTHON_ADMIN}::test_alter_replica_log_dirs",
            "AlterReplicaLogDirs",
            "moves a replica to another directory; a node has one",
        ),
        OutOfScope(
            f"{_KAFKA_PYTHON_ADMIN}::test_describe_metadata_quorum",
            "DescribeQuorum",
            "asks for the KRaft quorum, which there is none of",
        ),
        OutOfScope(
            f"{_KAFKA_PYTHON_ADMIN}::test_alter_partition_reassignments",
            "AlterPartitionReassignments",
            "moves a partition to other brokers",
        ),
        OutOfScope(
            f"{_KAFKA_PYTHON_CONSUMER}::test_kafka_consumer_offsets_for_time_old",
            "ListOffsets 0",
            "for brokers before 0.10.1 only: it skips itself on Apache Kafka 4.4 too",
        ),
        OutOfScope(
            f"{_KAFKA_PYTHON_PRODUCER}::test_transactional_producer_messages",
            "transactions",
            "commits and aborts",
        ),
        OutOfScope(
            f"{_KAFKA_PYTHON_PRODUCER}::test_transactional_producer_offsets",
            "transactions",
            "commits offsets in a transaction",
        ),
    ),
    "confluent-kafka-1": (_SCHEMA_REGISTRY,),
    "confluent-kafka-2": (
        _SCHEMA_REGISTRY,
        OutOfScope("tests/integration/share_consumer", "share groups", "KIP-932"),
        OutOfScope("tests/integration/share_consumer_oauth", "share groups", "KIP-932, OAuth"),
        OutOfScope("tests/integration/share_consumer_sasl", "share groups", "KIP-932, SASL"),
        OutOfScope(
            "tests/integration/admin/test_basic_operations.py:verify_admin_acls",
            "ACLs",
            "the last step of a test that is run: creates, describes and deletes ACLs",
        ),
        OutOfScope(
            "tests/integration/admin/test_describe_operations.py",
            "ACLs",
            "allows an operation by ACL and describes what is allowed, with SASL",
        ),
        OutOfScope(
            "tests/integration/admin/test_incremental_alter_configs.py",
            "eligible leader replicas",
            "expects the min.insync.replicas that a KRaft controller writes for KIP-966",
        ),
        OutOfScope(
            "tests/integration/admin/test_user_scram_credentials.py",
            "SCRAM credentials",
            "creates and deletes SCRAM users",
        ),
        OutOfScope(
            "tests/integration/consumer/test_consumer_upgrade_downgrade.py",
            "ConsumerGroupHeartbeat",
            "KIP-848's protocol; skips itself without it",
        ),
        OutOfScope(
            "tests/integration/producer/test_transactions.py", "transactions", "commit and abort"
        ),
    ),
}
