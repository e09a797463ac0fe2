"""The Kafka error-code table: name, code, retriable, meaning. A new error is a new row.

The codes are the protocol's (Apache Kafka's `Errors`); the meanings say what HermesMQ means when it
sends one.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple


class ErrorCode(IntEnum):
    """int16 on the wire."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    INVALID_FETCH_SIZE = 4
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    STALE_CONTROLLER_EPOCH = 11
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    LOG_DIR_NOT_FOUND = 57
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    REASSIGNMENT_IN_PROGRESS = 60
    DELEGATION_TOKEN_AUTH_DISABLED = 61
    DELEGATION_TOKEN_NOT_FOUND = 62
    DELEGATION_TOKEN_OWNER_MISMATCH = 63
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65
    DELEGATION_TOKEN_EXPIRED = 66
    INVALID_PRINCIPAL_TYPE = 67
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    LISTENER_NOT_FOUND = 72
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    STALE_BROKER_EPOCH = 77
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    RESOURCE_NOT_FOUND = 91
    DUPLICATE_RESOURCE = 92
    UNACCEPTABLE_CREDENTIAL = 93
    INCONSISTENT_VOTER_SET = 94
    INVALID_UPDATE_VERSION = 95
    FEATURE_UPDATE_FAILED = 96
    PRINCIPAL_DESERIALIZATION_FAILURE = 97
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    UNKNOWN_TOPIC_ID = 100
    DUPLICATE_BROKER_REGISTRATION = 101
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_TOPIC_ID = 103
    INCONSISTENT_CLUSTER_ID = 104
    TRANSACTIONAL_ID_NOT_FOUND = 105
    FETCH_SESSION_TOPIC_ID_ERROR = 106
    INELIGIBLE_REPLICA = 107
    NEW_LEADER_ELECTED = 108
    OFFSET_MOVED_TO_TIERED_STORAGE = 109
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115
    UNKNOWN_CONTROLLER_ID = 116
    UNKNOWN_SUBSCRIPTION_ID = 117
    TELEMETRY_TOO_LARGE = 118
    INVALID_REGISTRATION = 119
    TRANSACTION_ABORTABLE = 120
    INVALID_RECORD_STATE = 121
    SHARE_SESSION_NOT_FOUND = 122
    INVALID_SHARE_SESSION_EPOCH = 123
    FENCED_STATE_EPOCH = 124
    INVALID_VOTER_KEY = 125
    DUPLICATE_VOTER = 126
    VOTER_NOT_FOUND = 127
    INVALID_REGULAR_EXPRESSION = 128
    REBOOTSTRAP_REQUIRED = 129
    STREAMS_INVALID_TOPOLOGY = 130
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131
    STREAMS_TOPOLOGY_FENCED = 132
    SHARE_SESSION_LIMIT_REACHED = 133
    GROUP_DELETION_FAILED = 134
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED = 135
    CONTROLLER_ID_NOT_REGISTERED = 136


OF_ONE_RECORD: Final = frozenset(
    {ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TIMESTAMP}
)
"""A batch is refused whole with one of these, nothing of it is stored, and often one record alone
is why: a sender that cuts the batch in halves finds it, and the others are stored.
"""

RETRIABLE: Final = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    }
)


class ErrorInfo(NamedTuple):
    """One row of the table. `is_retriable`: the same request may succeed later, unchanged."""

    code: ErrorCode
    name: str
    is_retriable: bool
    meaning: str


_MEANINGS: Final = {
    ErrorCode.UNKNOWN_SERVER_ERROR: (
        "A bug or an unforeseen failure of the broker; its log has the trace."
    ),
    ErrorCode.NONE: "Success.",
    ErrorCode.OFFSET_OUT_OF_RANGE: "The offset lies before the log start or beyond the log end.",
    ErrorCode.CORRUPT_MESSAGE: (
        "The batch does not match its CRC-32C, or its lengths contradict each other."
    ),
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: (
        "No such topic, or no such partition of it, on this broker."
    ),
    ErrorCode.INVALID_FETCH_SIZE: "The fetch asks for a negative number of bytes.",
    ErrorCode.LEADER_NOT_AVAILABLE: "The partition has no leader at the moment: ask again.",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: (
        "This broker does not serve the partition: refresh the metadata."
    ),
    ErrorCode.REQUEST_TIMED_OUT: (
        "The time allowed passed before the work was done; it may still complete."
    ),
    ErrorCode.BROKER_NOT_AVAILABLE: "The broker asked for is not running.",
    ErrorCode.REPLICA_NOT_AVAILABLE: "The replica asked for is not there.",
    ErrorCode.MESSAGE_TOO_LARGE: "The batch is larger than max.message.bytes of its topic.",
    ErrorCode.STALE_CONTROLLER_EPOCH: "The sender still follows a deposed controller.",
    ErrorCode.OFFSET_METADATA_TOO_LARGE: (
        "The text stored with a committed offset is longer than offset.metadata.max.bytes."
    ),
    ErrorCode.NETWORK_EXCEPTION: (
        "The connection broke before the answer came; used on the client side."
    ),
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: (
        "The coordinator is still reading the groups back from its log."
    ),
    ErrorCode.COORDINATOR_NOT_AVAILABLE: (
        "There is no coordinator yet, or its log cannot be written now."
    ),
    ErrorCode.NOT_COORDINATOR: "Another broker coordinates this group: look it up again.",
    ErrorCode.INVALID_TOPIC_EXCEPTION: (
        "The name cannot be a topic, or the topic is internal and not to be written."
    ),
    ErrorCode.RECORD_LIST_TOO_LARGE: "The request carries more than a segment can hold.",
    ErrorCode.NOT_ENOUGH_REPLICAS: (
        "Fewer replicas in sync than min.insync.replicas; nothing was appended."
    ),
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: (
        "Appended, but too few replicas in sync took it over."
    ),
    ErrorCode.INVALID_REQUIRED_ACKS: "acks is none of -1, 0 and 1.",
    ErrorCode.ILLEGAL_GENERATION: (
        "The member speaks of a generation that is over: it has to rejoin."
    ),
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: (
        "The member shares no protocol with the group, or names another protocol type."
    ),
    ErrorCode.INVALID_GROUP_ID: "The group id is empty or otherwise unusable.",
    ErrorCode.UNKNOWN_MEMBER_ID: "The group does not know this member: it has to join anew.",
    ErrorCode.INVALID_SESSION_TIMEOUT: "The session timeout is outside of what the broker allows.",
    ErrorCode.REBALANCE_IN_PROGRESS: "The group forms a new generation: the member has to rejoin.",
    ErrorCode.INVALID_COMMIT_OFFSET_SIZE: (
        "The commit would not fit into one batch of the offsets topic."
    ),
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "The principal may not do this to the topic.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "The principal may not do this to the group.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "The principal may not do this to the cluster.",
    ErrorCode.INVALID_TIMESTAMP: "A record is older or newer than the topic allows.",
    ErrorCode.UNSUPPORTED_SASL_MECHANISM: "The broker does not offer this way to authenticate.",
    ErrorCode.ILLEGAL_SASL_STATE: "Authentication messages came in the wrong order.",
    ErrorCode.UNSUPPORTED_VERSION: "The broker does not speak this version of the request.",
    ErrorCode.TOPIC_ALREADY_EXISTS: "There is a topic of this name already.",
    ErrorCode.INVALID_PARTITIONS: (
        "The number of partitions is not allowed, or not above the present one."
    ),
    ErrorCode.INVALID_REPLICATION_FACTOR: (
        "There are not as many brokers as replicas asked for, or the number is below 1."
    ),
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: "The assignment names unknown brokers or leaves gaps.",
    ErrorCode.INVALID_CONFIG: "A setting is unknown or its value is not allowed.",
    ErrorCode.NOT_CONTROLLER: "Only the controller can do this, and it is another node.",
    ErrorCode.INVALID_REQUEST: "The request contradicts itself or breaks a rule of its API.",
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: "The stored format cannot do what is asked.",
    ErrorCode.POLICY_VIOLATION: "A rule of this installation forbids it.",
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: (
        "The sequence number leaves a gap after the last batch of its producer, or after its "
        "first one, which was refused."
    ),
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: (
        "The batch was appended before, too long ago to know its offset."
    ),
    ErrorCode.INVALID_PRODUCER_EPOCH: "A newer incarnation of the producer has written already.",
    ErrorCode.INVALID_TXN_STATE: "The transaction is not in a state that allows this.",
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: (
        "The producer id does not belong to the transactional id."
    ),
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: (
        "The transaction timeout is longer than the broker allows."
    ),
    ErrorCode.CONCURRENT_TRANSACTIONS: (
        "The transaction before is still being completed: ask again."
    ),
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: "A newer transaction coordinator has taken over.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: (
        "The principal may not use this transactional id."
    ),
    ErrorCode.SECURITY_DISABLED: "Access control is switched off on this broker.",
    ErrorCode.OPERATION_NOT_ATTEMPTED: "Not tried, because an earlier part of the request failed.",
    ErrorCode.KAFKA_STORAGE_ERROR: (
        "The disk has too little room for records, or failed: then the partition is offline here."
    ),
    ErrorCode.LOG_DIR_NOT_FOUND: "The broker has no such data directory.",
    ErrorCode.SASL_AUTHENTICATION_FAILED: "Wrong credentials.",
    ErrorCode.UNKNOWN_PRODUCER_ID: "Nothing is known of the producer any more.",
    ErrorCode.REASSIGNMENT_IN_PROGRESS: "The replicas of the partition are being moved already.",
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "Delegation tokens are not enabled.",
    ErrorCode.DELEGATION_TOKEN_NOT_FOUND: "No such delegation token.",
    ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH: "The delegation token belongs to somebody else.",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: (
        "Delegation tokens cannot be asked for over this connection."
    ),
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: (
        "The principal may not use this delegation token."
    ),
    ErrorCode.DELEGATION_TOKEN_EXPIRED: "The delegation token is over.",
    ErrorCode.INVALID_PRINCIPAL_TYPE: "This kind of principal is not supported.",
    ErrorCode.NON_EMPTY_GROUP: "The group still has members.",
    ErrorCode.GROUP_ID_NOT_FOUND: "No such group.",
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND: (
        "The fetch session is not known any more: begin a new one."
    ),
    ErrorCode.INVALID_FETCH_SESSION_EPOCH: (
        "A request of the fetch session was lost or came twice: begin a new one."
    ),
    ErrorCode.LISTENER_NOT_FOUND: (
        "The leader has no listener of the kind that the client came in on."
    ),
    ErrorCode.TOPIC_DELETION_DISABLED: "Deleting topics is switched off.",
    ErrorCode.FENCED_LEADER_EPOCH: "The client knows an older leader epoch: refresh the metadata.",
    ErrorCode.UNKNOWN_LEADER_EPOCH: (
        "The client knows a newer leader epoch than this broker: ask again."
    ),
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: (
        "The codec of the batch needs a newer version of the request."
    ),
    ErrorCode.STALE_BROKER_EPOCH: "The broker has been registered anew since.",
    ErrorCode.OFFSET_NOT_AVAILABLE: "A new leader does not know its high watermark yet: ask again.",
    ErrorCode.MEMBER_ID_REQUIRED: "Join again with the member id that this answer carries.",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "The preferred leader is not in sync or not running.",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "The group has as many members as are allowed.",
    ErrorCode.FENCED_INSTANCE_ID: "Another member has taken over this group instance id.",
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "No replica may become the leader now.",
    ErrorCode.ELECTION_NOT_NEEDED: "The partition is led as wanted already.",
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: "The partition is not being moved.",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: (
        "The group is subscribed to the topic, so its offsets stay."
    ),
    ErrorCode.INVALID_RECORD: "A record or its batch breaks a rule of the format or of the topic.",
    ErrorCode.UNSTABLE_OFFSET_COMMIT: "Offsets of an open transaction are pending: ask again.",
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: "The quota is used up: try again after the throttle time.",
    ErrorCode.PRODUCER_FENCED: "A newer producer has the same transactional id.",
    ErrorCode.RESOURCE_NOT_FOUND: "What the request names does not exist.",
    ErrorCode.DUPLICATE_RESOURCE: "The request names the same thing twice.",
    ErrorCode.UNACCEPTABLE_CREDENTIAL: "The new credential does not meet the rules.",
    ErrorCode.INCONSISTENT_VOTER_SET: "Sender and receiver disagree about the voters.",
    ErrorCode.INVALID_UPDATE_VERSION: "The version to update from is not the present one.",
    ErrorCode.FEATURE_UPDATE_FAILED: "The feature cannot be set to that level.",
    ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE: "A forwarded principal cannot be read.",
    ErrorCode.SNAPSHOT_NOT_FOUND: "No such metadata snapshot.",
    ErrorCode.POSITION_OUT_OF_RANGE: "The position lies beyond the end of the snapshot.",
    ErrorCode.UNKNOWN_TOPIC_ID: (
        "No topic has this id: it was deleted, or this broker has yet to hear of it."
    ),
    ErrorCode.DUPLICATE_BROKER_REGISTRATION: "A running broker has this node id.",
    ErrorCode.BROKER_ID_NOT_REGISTERED: "No broker has this node id.",
    ErrorCode.INCONSISTENT_TOPIC_ID: "The topic of this name has another id on the broker's disk.",
    ErrorCode.INCONSISTENT_CLUSTER_ID: "The request is meant for another cluster.",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "No such transactional id.",
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR: (
        "The fetch session was begun without topic ids, or the other way round: begin a new one."
    ),
    ErrorCode.INELIGIBLE_REPLICA: "The replica may not join the in-sync replicas now.",
    ErrorCode.NEW_LEADER_ELECTED: "The change made another replica the leader.",
    ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE: "The offset is not on the local disk any more.",
    ErrorCode.FENCED_MEMBER_EPOCH: (
        "The member is ahead of or behind its group: it has to join anew."
    ),
    ErrorCode.UNRELEASED_INSTANCE_ID: "The group instance id is still in use.",
    ErrorCode.UNSUPPORTED_ASSIGNOR: "The broker does not have this assignor.",
    ErrorCode.STALE_MEMBER_EPOCH: "The member has a newer epoch by now: retry with that.",
    ErrorCode.MISMATCHED_ENDPOINT_TYPE: "The question is for another kind of node.",
    ErrorCode.UNSUPPORTED_ENDPOINT_TYPE: "There is no such kind of node here.",
    ErrorCode.UNKNOWN_CONTROLLER_ID: "No controller has this id.",
    ErrorCode.UNKNOWN_SUBSCRIPTION_ID: "The client's telemetry subscription is not known.",
    ErrorCode.TELEMETRY_TOO_LARGE: "More telemetry than the broker takes.",
    ErrorCode.INVALID_REGISTRATION: "The registration of the broker breaks a rule.",
    ErrorCode.TRANSACTION_ABORTABLE: "The transaction has to be aborted; the producer may go on.",
    ErrorCode.INVALID_RECORD_STATE: (
        "The record is not in a state that allows this acknowledgement."
    ),
    ErrorCode.SHARE_SESSION_NOT_FOUND: "The share session is not known any more: begin a new one.",
    ErrorCode.INVALID_SHARE_SESSION_EPOCH: (
        "A request of the share session was lost or came twice: begin a new one."
    ),
    ErrorCode.FENCED_STATE_EPOCH: "The share state has a newer owner.",
    ErrorCode.INVALID_VOTER_KEY: "The voter has another directory id.",
    ErrorCode.DUPLICATE_VOTER: "The voter is there already.",
    ErrorCode.VOTER_NOT_FOUND: "No such voter.",
    ErrorCode.INVALID_REGULAR_EXPRESSION: "The subscription pattern is not a valid expression.",
    ErrorCode.REBOOTSTRAP_REQUIRED: (
        "The client has reached another cluster: start from the bootstrap addresses."
    ),
    ErrorCode.STREAMS_INVALID_TOPOLOGY: "The topology of the streams application breaks a rule.",
    ErrorCode.STREAMS_INVALID_TOPOLOGY_EPOCH: "The topology epoch is not allowed.",
    ErrorCode.STREAMS_TOPOLOGY_FENCED: "The group runs a newer topology.",
    ErrorCode.SHARE_SESSION_LIMIT_REACHED: "No room for another share session: ask again.",
    ErrorCode.GROUP_DELETION_FAILED: "The group could not be deleted.",
    ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED: (
        "The description of the topology could not be stored."
    ),
    ErrorCode.CONTROLLER_ID_NOT_REGISTERED: "No controller is registered under this id.",
}

ERRORS: Final[Mapping[ErrorCode, ErrorInfo]] = {
    code: ErrorInfo(code, code.name, code in RETRIABLE, meaning)
    for code, meaning in _MEANINGS.items()
}


def error_code(number: int) -> ErrorCode:
    """The code of that number; UNKNOWN_SERVER_ERROR for one that a newer broker may send."""
    return _BY_NUMBER.get(number, ErrorCode.UNKNOWN_SERVER_ERROR)


_BY_NUMBER: Final = {int(code): code for code in ErrorCode}


MESSAGE_CHARACTERS_MAX: Final = 2_000
"""A longer message is cut: no answer can carry more than 32,767 bytes, and the peer's own words
are in it.
"""


class Refusal(Exception):
    """The peer asked wrongly, or what it asked for cannot be done now: one error code and a
    sentence for its user.
    """

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        if len(message) > MESSAGE_CHARACTERS_MAX:
            message = f"{message[: MESSAGE_CHARACTERS_MAX - 1]}…"
        super().__init__(message or code.name)
        self.code = code
        self.message = message

    def __reduce__(self) -> tuple[type[Refusal], tuple[object, ...]]:
        """Pickled as it was made: a refusal comes back from the worker process as itself."""
        return type(self), (self.code, self.message)
