"""The job of `kafka-share demo`: count the definitions in Python source files, shared among a pool of workers.

- `sources`: which files are the input, and what is left out
- `definitions`: one file's bytes → how many functions and classes it defines, or why it does not parse
- `ledger`: what happened to every published file; decides whether each was settled exactly once
- `worker`: one share consumer on one thread
- `cluster`: topic, group config and publishing, over the wire
- `job`: puts these together and keeps the deadline
- `report`: what is told at the end

`kafka_share.cli.demo.command` is the front. Nothing here writes to a terminal.
"""
