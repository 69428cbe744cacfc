"""Share groups: their members and assignments, the sessions and deliveries of each node, and the stored state.

- `share_groups`, `share_group`, `assignor`: membership
- `node`: one node's share half, with its `sessions` and `delayed_fetches`
- `partition`, `window`, `record_state`, `acquisition`: the deliveries of one topic partition
- `share_coordinator`, `state_batches`: what is stored, in place of Kafka's topic `__share_group_state`
- `cluster_view`: what these machines may ask of the cluster around them
"""
