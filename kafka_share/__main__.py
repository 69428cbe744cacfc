"""`python -m kafka_share`: the command `kafka-share`."""

from __future__ import annotations

from kafka_share.cli.main import main

main(prog_name="kafka-share")
