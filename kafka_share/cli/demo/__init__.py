"""The job of `kafka-share demo`: count the definitions in Python source files, shared among a pool of workers.

- `command`: the options; `running`: from the options to the result on the screen; `view`: what that looks like
- `sources`: which files are the input, and what is left out
- `definitions`: one file's bytes → how many functions and classes it defines, or why it does not parse
- `ledger`: what happened to every published file; decides whether each was settled exactly once
- `worker`: one share consumer on one thread
- `cluster`: topic, group config and publishing, over the wire; `topics`: what of it is kafka-python's admin client
- `job`: puts these together and keeps the deadline
- `report`: the result of a run

Nothing but `view` and `running` writes to a terminal.
"""
