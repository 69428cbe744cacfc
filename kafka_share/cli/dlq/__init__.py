"""`kafka-share dlq`: lists dead letters, shows them, and writes them back to where they come from."""
