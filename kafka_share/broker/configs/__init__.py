"""The configuration of brokers, topics and groups: which keys exist, and which values apply."""
