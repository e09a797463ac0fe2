"""DeleteTopics (20). 4 is flexible, 6 can name topics by id."""

from __future__ import annotations

from broker.wire.schema import STRING, array, int16, int32, message, string, struct, uuid


@struct
class DeleteTopicState:
    """One topic, by id (`name` null) or by name."""

    name: str | None = string(None, versions="6+", nullable="0+")
    topic_id: bytes = uuid(versions="6+")


@message(api_key=20, direction="request", versions="1-6", flexible="4+")
class DeleteTopicsRequest:
    """Topics by name (up to version 5) or by name or id."""

    topics: list[DeleteTopicState] = array(DeleteTopicState, versions="6+")
    topic_names: list[str] = array(STRING, versions="0-5", ignorable=True)
    timeout_ms: int = int32()


@struct
class DeletableTopicResult:
    """Deleted, or why not."""

    name: str | None = string(nullable="6+")
    topic_id: bytes = uuid(versions="6+", ignorable=True)
    error_code: int = int16()
    error_message: str | None = string(None, versions="5+", nullable="0+", ignorable=True)


@message(api_key=20, direction="response", versions="1-6", flexible="4+")
class DeleteTopicsResponse:
    """The outcome per topic."""

    throttle_time_ms: int = int32()
    responses: list[DeletableTopicResult] = array(DeletableTopicResult)
