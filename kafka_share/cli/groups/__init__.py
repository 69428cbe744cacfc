"""`kafka-share-groups`: share groups listed, described, reset, deleted and configured, as Kafka's own tool does.

`command` has the options and runs an action; `rules` says which options go together; `reset` plans new offsets;
`tables` and `documents` are the two shapes of the output, both pure.
"""
