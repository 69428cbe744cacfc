"""One module per family of APIs, each headed by what it does and what it leaves out.

A handler is `handle…(cluster, context, request, now_ms) -> response | None`; None means that the answer comes later,
when the machines of the cluster are polled. Handlers translate between wire messages and the machines; they keep no
state.
"""
