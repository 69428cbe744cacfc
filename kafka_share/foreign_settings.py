"""Settings of other Kafka clients: what to write here instead, or the reason why there is nothing to set.

The names are those of Java's client, librdkafka (confluent-kafka), kafka-python and aiokafka, with "_" instead of ".".
`config` asks for each name that is not one of ours; docs/settings-of-other-clients.md shows the tables. No logic.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

RENAMED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "brokers": "bootstrap_servers",
        "metadata_broker_list": "bootstrap_servers",
        "socket_timeout_ms": "request_timeout_ms",
        "socket_send_buffer_bytes": "send_buffer_bytes",
        "socket_receive_buffer_bytes": "receive_buffer_bytes",
        "topic_metadata_refresh_interval_ms": "metadata_max_age_ms",
        "ssl_ca_location": "ssl_cafile",
        "ssl_certificate_location": "ssl_certfile",
        "ssl_key_location": "ssl_keyfile",
        "ssl_key_password": "ssl_password",
        "ssl_crl_location": "ssl_crlfile",
        "ssl_cipher_suites": "ssl_ciphers",
        "sasl_mechanisms": "sasl_mechanism",
        "sasl_username": "sasl_plain_username",
        "sasl_password": "sasl_plain_password",
        "username": "sasl_plain_username",
        "password": "sasl_plain_password",
        "fetch_wait_max_ms": "fetch_max_wait_ms",
    }
)
"""Settings that are here under another name."""

_SET_IT = "set the group config {} with KafkaShareAdmin.ensure_group_config or kafka-share-groups --alter --add-config"
_BY_GROUP = f"it belongs to the share group: {_SET_IT}"
_BY_COORDINATOR = f"the group coordinator decides it: {_SET_IT}"
_VERSIONS = "versions are negotiated with each broker"
_LOGGING = 'log lines go to the Python loggers below "kafka_share": set their level and handlers with logging'
_METRICS = "consumer.metrics() has the numbers at any time; kafka_share.opentelemetry hands them to OpenTelemetry"
_CONTEXT = "set it on an ssl.SSLContext, and give that as ssl_context"
_CERTIFICATES = "write the certificates to a PEM file and name it in ssl_cafile, or give a ready ssl_context"
_CLIENT_CERTIFICATE = "write certificate and key to PEM files and name them in ssl_certfile and ssl_keyfile"
_TOKENS = "give sasl_oauth_token_provider: an object whose method token() returns the token"
_KERBEROS = "Kerberos (GSSAPI) is not supported: sasl_mechanism is PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER"
_ERRORS = "errors are raised by poll and commit_sync, and outages are logged"
_CONNECTIONS = "the client makes its connections itself"
_INTERNAL = "it is about the inside of another client"
_IN_FLIGHT = "the client decides it: a share session has one request in flight per broker"
_REFRESH = "topics and leaders are looked up when they are needed, with the pauses of retry_backoff_ms"
_PROXY = "connections through a proxy are not supported"
_PRODUCER = "it belongs to a producer, and this client only consumes"
_BOOTSTRAP = (
    "each attempt is bounded by socket_connection_setup_timeout_ms, and poll raises after default_api_timeout_ms"
)
_NOT_COMMITTED = "records are acknowledged, not committed: see share_acknowledgement_mode"
_ASSIGNED = "the broker assigns partitions (its setting group.share.assignors)"
_REBALANCE = "a share group has no rebalances to follow: no record is tied to a partition's owner"
_CALLBACK = "outcomes are reported to consumer.set_acknowledgement_commit_callback"
_NO_PREFETCH = (
    "each poll asks for what it needs, see max_poll_records and fetch_max_bytes; send_ahead fetches one batch more"
)
_ONE_LIMIT = "one limit covers the whole answer of a broker: fetch_max_bytes"
_BY_NAME = "share consumers subscribe by name only: no pattern could match an internal topic"
_ADAPTER = "configure the Schema Registry client with it, and give its deserializer through from_schema_registry"

_REASONS_FOR_ALL: Final = (
    (_VERSIONS, "api_version api_version_request api_version_request_timeout_ms api_version_fallback_ms "
     "api_version_auto_timeout_ms broker_version_fallback"),
    (_LOGGING, "debug log_level log_cb log_queue log_thread_name log_connection_close logger"),
    (_METRICS, "statistics_interval_ms stats_cb metric_reporters metrics_recording_level metrics_enabled "
     "metric_group_prefix"),
    (_ERRORS, "error_cb"),
    ("the time that brokers held requests back is in consumer.metrics(), as fetch-throttle-time-avg", "throttle_cb"),
    ("there is no queue of events: calls return or raise", "enabled_events background_event_cb"),
    (_CONNECTIONS, "socket_cb connect_cb closesocket_cb open_cb resolve_cb selector kafka_client loop "
     "socket_blocking_max_ms socket_max_fails socket_options"),
    ("it is always on", "socket_keepalive_enable socket_nagle_disable"),
    ("host names are looked up for each connection, and all addresses are tried",
     "client_dns_lookup broker_address_ttl broker_address_family"),
    (_PROXY, "proxy_url socks5_proxy"),
    (_INTERNAL, "builtin_features enable_random_seed internal_termination_signal opaque default_topic_conf "
     "plugin_library_paths internal_throw_on_fetch_stable_offset_unsupported sock_chunk_bytes "
     "sock_chunk_buffer_count message_copy_max_bytes"),
    (_IN_FLIGHT, "max_in_flight max_in_flight_requests_per_connection"),
    (_REFRESH, "topic_metadata_refresh_fast_interval_ms topic_metadata_refresh_fast_cnt topic_metadata_refresh_sparse "
     "topic_metadata_propagation_max_ms"),
    ("the client goes back to bootstrap_servers by itself when no known broker answers",
     "metadata_recovery_strategy metadata_recovery_rebootstrap_trigger_ms"),
    ("the id of the cluster is not checked", "metadata_cluster_check_enable"),
    (_BOOTSTRAP, "bootstrap_timeout_ms bootstrap_resolve_timeout_ms"),
    ("it does not grow: see socket_connection_setup_timeout_ms", "socket_connection_setup_timeout_max_ms"),
    ("back-offs have their jitter always: see reconnect_backoff_ms", "reconnect_backoff_jitter_ms"),
    ("values are taken as they are: fetch secrets before you make the client", "config_providers"),
    ("answers are bounded by fetch_max_bytes", "receive_message_max_bytes"),
    ("give the certificate authorities as a PEM file in ssl_cafile",
     "ssl_truststore_location ssl_truststore_type ssl_truststore_password"),
    ("give certificate and key as PEM files in ssl_certfile and ssl_keyfile",
     "ssl_keystore_location ssl_keystore_type ssl_keystore_password"),
    (_CERTIFICATES, "ssl_ca ssl_ca_pem ssl_truststore_certificates ssl_ca_certificate_stores"),
    (_CLIENT_CERTIFICATE, "ssl_key ssl_key_pem ssl_certificate ssl_certificate_pem ssl_keystore_key "
     "ssl_keystore_certificate_chain"),
    ("host names are verified unless ssl_check_hostname is False", "ssl_endpoint_identification_algorithm"),
    ("certificates are always verified; a ready ssl_context may decide otherwise",
     "enable_ssl_certificate_verification ssl_certificate_verify_cb"),
    (_CONTEXT, "ssl_curves_list ssl_sigalgs_list ssl_providers ssl_provider ssl_engine_location ssl_engine_id "
     "ssl_engine_callback_data ssl_engine_factory_class ssl_protocol ssl_enabled_protocols ssl_keymanager_algorithm "
     "ssl_trustmanager_algorithm ssl_secure_random_implementation security_providers"),
    ("give sasl_plain_username and sasl_plain_password, or sasl_oauth_token_provider", "sasl_jaas_config"),
    (_KERBEROS, "sasl_kerberos_service_name sasl_kerberos_name sasl_kerberos_domain_name sasl_kerberos_principal "
     "sasl_kerberos_kinit_cmd sasl_kerberos_keytab sasl_kerberos_min_time_before_relogin "
     "sasl_kerberos_ticket_renew_jitter sasl_kerberos_ticket_renew_window_factor"),
    (_TOKENS, "oauth_cb oauthbearer_token_refresh_cb enable_sasl_oauthbearer_unsecure_jwt https_ca_location "
     "https_ca_pem sasl_client_callback_handler_class sasl_login_callback_handler_class sasl_login_class "
     "sasl_login_connect_timeout_ms sasl_login_read_timeout_ms sasl_login_refresh_buffer_seconds "
     "sasl_login_refresh_min_period_seconds sasl_login_refresh_window_factor sasl_login_refresh_window_jitter "
     "sasl_login_retry_backoff_max_ms sasl_login_retry_backoff_ms"),
    (_PRODUCER, "acks batch_size linger_ms compression_type enable_idempotence transactional_id message_max_bytes "
     "key_serializer value_serializer"),
)  # fmt: skip

_REASONS_FOR_CONSUMERS: Final = (
    (_BY_GROUP.format("share.auto.offset.reset"), "auto_offset_reset share_auto_offset_reset"),
    (_BY_GROUP.format("share.isolation.level"), "isolation_level share_isolation_level"),
    (_BY_GROUP.format("share.record.lock.duration.ms"), "share_record_lock_duration_ms"),
    (_BY_GROUP.format("share.delivery.count.limit"), "share_delivery_count_limit"),
    (_BY_GROUP.format("share.partition.max.record.locks"), "share_partition_max_record_locks"),
    (_BY_GROUP.format("share.renew.acknowledge.enable"), "share_renew_acknowledge_enable"),
    (_BY_GROUP.format("share.assignment.interval.ms"), "share_assignment_interval_ms"),
    (_BY_COORDINATOR.format("share.session.timeout.ms"), "session_timeout_ms share_session_timeout_ms"),
    (_BY_COORDINATOR.format("share.heartbeat.interval.ms"), "heartbeat_interval_ms share_heartbeat_interval_ms"),
    (_NOT_COMMITTED, "enable_auto_commit auto_commit_enable auto_commit_interval_ms enable_auto_offset_store "
     "offset_store_method offset_store_path offset_store_sync_interval_ms"),
    ("share groups have no static members", "group_instance_id"),
    (_ASSIGNED, "partition_assignment_strategy group_remote_assignor"),
    (_REBALANCE, "rebalance_cb rebalance_timeout_ms on_assign on_revoke on_lost"),
    ("share consumers have no interceptors: wrap poll, or use the acknowledgement callback",
     "interceptor_classes interceptors"),
    ("a share consumer speaks the share group protocol only", "group_protocol group_protocol_type"),
    (_ONE_LIMIT, "max_partition_fetch_bytes fetch_message_max_bytes"),
    (_BY_NAME, "exclude_internal_topics topic_blacklist"),
    ("give poll its timeout_ms, or end the iteration with wakeup()", "consumer_timeout_ms"),
    ("give it to poll: consumer.poll(timeout_ms=1_000)", "timeout_ms poll_timeout_ms"),
    (_NO_PREFETCH, "queued_min_messages queued_max_messages_kbytes fetch_queue_backoff_ms"),
    ("records come from poll, or from iterating over the consumer", "consume_cb consume_callback_max_messages"),
    (_CALLBACK, "on_commit offset_commit_cb default_offset_commit_callback"),
    ("a poll that returns nothing says that there is nothing now", "enable_partition_eof"),
    ("share sessions are always incremental", "enable_incremental_fetch_sessions"),
    ("failed requests are repeated after retry_backoff_ms", "fetch_error_backoff_ms coordinator_query_interval_ms"),
    ("topics are the positional arguments: KafkaShareConsumer(*topics, **settings)", "topic topics"),
    (_ADAPTER, "schema_registry_url"),
)  # fmt: skip


def _by_name(*parts: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for part in parts:
        for reason, names in part:
            for name in names.split():
                assert name not in found, f"{name} has two reasons"
                found[name] = reason
    return MappingProxyType(found)


REFUSED_BY_ALL: Final = _by_name(_REASONS_FOR_ALL)
"""Settings that no client here has, each with the sentence that says where the matter lives."""
REFUSED_BY_CONSUMERS: Final = _by_name(_REASONS_FOR_CONSUMERS, _REASONS_FOR_ALL)
"""The same for a share consumer."""

_TOKEN_SETTINGS: Final = "sasl_oauthbearer_"


def refusal_of(key: str, reasons: Mapping[str, str]) -> str | None:
    """The reason why a client that has these reasons refuses the setting; None if it is not in the tables."""
    return _TOKENS if key.startswith(_TOKEN_SETTINGS) else reasons.get(key)
