"""Consumer groups (KIP-848): members, target assignments, reconciliation, regular expressions."""
