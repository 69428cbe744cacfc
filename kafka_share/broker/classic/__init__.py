"""Classic groups, committed offsets, transactions and ordinary fetches: what Kafka's other clients need."""
