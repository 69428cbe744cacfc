"""The reference broker: a Kafka 4.3 with share groups, or one of its neighbours, for tests, simulation and demos.

    from kafka_share.broker import ReferenceBroker

    with ReferenceBroker(config={"group.share.record.lock.duration.ms": 30_000}) as broker:
        broker.create_topic("jobs", partitions=2)
        broker.set_group_config("workers", share_auto_offset_reset="earliest")
        broker.produce("jobs", b"payload")
        ...                                  # any Kafka client on broker.bootstrap_servers

Cut like the client: everything but a few files is machines without I/O, which the simulation drives under a virtual
clock. From the outside in:

- `reference_broker`: the object above; `inspection`: its snapshots; `metrics`: what it counts; `clock`, `faults`: what
  tests turn
- `loop_thread`: the thread on which all of it runs; `record_input`: records as tests write them
- `server`: listeners and the timer, drives one machine; `connection`: one client's socket, and what faults do to
  answers; `conversation`: its requests, one after the other; `request_log`: the last ones
- `machine`: has a request cleared, finds its handler, gives answers that come later; `events`: what goes in and out
- `cluster`: nodes, topics, groups, and what can be changed about them
- `handlers/`: one file per family of APIs, between wire messages and machines; `authorization` among them: what each
  API asks the authorizer; `error_answers`: what planned faults and denials answer
- `share/`: share groups, sessions, deliveries and stored state
- `classic/`: classic groups, committed offsets, transactions and ordinary fetches; `group_ids`: which id belongs to
  which type of group
- `security/`: who a client is: TLS, SASL, and what a test needs to get in; what it may do: ACLs
- `storage/`: topics, logs and producers; `configs/`: what is configured and what applies
- `kafka_version`: what differs between the versions of Kafka that it can be; `refusals`: how machines say no;
  `api_keys`: the APIs by name

A single process keeps everything in memory; there is no replication and no compaction.
"""

from __future__ import annotations

from kafka_share.broker.api_keys import ApiKey
from kafka_share.broker.clock import BrokerClock
from kafka_share.broker.limits import Limits
from kafka_share.broker.reference_broker import ReferenceBroker
from kafka_share.broker.security.acls import Acl
from kafka_share.broker.security.settings import Security, TlsFiles
from kafka_share.broker.security.tokens import SignedTokens, UnsecuredTokens

__all__ = [
    "Acl",
    "ApiKey",
    "BrokerClock",
    "Limits",
    "ReferenceBroker",
    "Security",
    "SignedTokens",
    "TlsFiles",
    "UnsecuredTokens",
]
