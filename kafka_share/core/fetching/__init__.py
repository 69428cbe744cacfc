"""Fetching: share sessions, fetches, and the acknowledgements that travel with them."""
