"""Who a client of the broker is: SASL as machines without I/O, and the TLS of the sockets.

`server.py` takes TLS and mechanisms from it, `conversation.py` the authentication of its connection. The handlers of a
request know nothing of it.
"""
