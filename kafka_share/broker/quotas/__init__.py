"""Client quotas: what was set for users and clients, and how long those who exceed it have to wait."""
