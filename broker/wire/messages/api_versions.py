"""ApiVersions (18): the APIs and features of a broker. 3 is flexible, but its response header never
is.
"""

from __future__ import annotations

from broker.wire.schema import array, boolean, int16, int32, int64, message, string, struct


@message(api_key=18, direction="request", versions="0-4", flexible="3+")
class ApiVersionsRequest:
    """Name and version of the client's library, from version 3."""

    client_software_name: str = string(versions="3+", ignorable=True)
    client_software_version: str = string(versions="3+", ignorable=True)


@struct
class ApiVersion:
    """An API and its versions, both inclusive."""

    api_key: int = int16()
    min_version: int = int16()
    max_version: int = int16()


@struct
class SupportedFeatureKey:
    """A feature that the broker could run."""

    name: str = string(versions="3+")
    min_version: int = int16(versions="3+")
    max_version: int = int16(versions="3+")


@struct
class FinalizedFeatureKey:
    """A feature that the cluster runs."""

    name: str = string(versions="3+")
    max_version_level: int = int16(versions="3+")
    min_version_level: int = int16(versions="3+")


@message(api_key=18, direction="response", versions="0-4", flexible="3+")
class ApiVersionsResponse:
    """Every API that this broker answers."""

    error_code: int = int16()
    api_keys: list[ApiVersion] = array(ApiVersion)
    throttle_time_ms: int = int32(versions="1+", ignorable=True)
    supported_features: list[SupportedFeatureKey] = array(
        SupportedFeatureKey, versions="3+", tag=0, ignorable=True
    )
    finalized_features_epoch: int = int64(-1, versions="3+", tag=1, ignorable=True)
    finalized_features: list[FinalizedFeatureKey] = array(
        FinalizedFeatureKey, versions="3+", tag=2, ignorable=True
    )
    zk_migration_ready: bool = boolean(versions="3+", tag=3, ignorable=True)
