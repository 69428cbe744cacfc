"""The reference broker: a Kafka 4.3 with share groups, or one of its neighbours, for tests, simulation and demos.

    from kafka_share.broker import ReferenceBroker

    with ReferenceBroker(config={"group.share.record.lock.duration.ms": 30_000}) as broker:
        broker.create_topic("jobs", partitions=2)
        broker.set_group_config("workers", share_auto_offset_reset="earliest")
        broker.produce("jobs", b"payload")
        ...                                  # any Kafka client on broker.bootstrap_servers

Cut like the client: everything but three files is machines without I/O, which the simulation drives under a virtual
clock. From the outside in:

- `reference_broker`: the object above; `inspection`: its snapshots; `clock`, `faults`: what tests turn
- `server`: sockets, frames, the timer; drives one cluster
- `cluster`: the machine that routes requests and carries news; `events`: what goes in and out; `cluster_view`: what the
  share machines may ask it
- `handler_table` and `handlers/`: one file per family of APIs, between wire messages and machines; `error_answers`
- `topics`, `log`, `producers`, `appending`, `delayed_fetch`: partitions, records, ordinary fetches
- `configs`, `config_keys`, `settings`, `durations`: what is configured and what applies
- `kafka_version`: what differs between the versions of Kafka that it can be
- `group_coordinator`, `share_group`, `assignor`: membership of share groups
- `consumer_groups`, `consumer_group`, `committed_offsets`, `subscriptions`: classic consumer groups; `group_ids`: which
  id belongs to which type of group; `transactions`: transactional producers; `error_codes`: codes
  that only ordinary clients meet
- `share_node`, `share_session`, `share_partition`, `share_coordinator` and the files they name: sessions, records in
  flight, stored state

A single process keeps everything in memory; there is no replication, no retention and no security.
"""

from __future__ import annotations

from kafka_share.broker.clock import BrokerClock
from kafka_share.broker.reference_broker import ReferenceBroker

__all__ = ["BrokerClock", "ReferenceBroker"]
