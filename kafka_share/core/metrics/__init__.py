"""Metrics: what is measured, under which names, and the push to brokers that ask for it (KIP-714)."""
