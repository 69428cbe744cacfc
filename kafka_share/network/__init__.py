"""The only client code with sockets, threads and clocks: connections, and the driver that runs one core on a thread.

A façade makes a `driver.ConsumerDriver` with a core and its own configuration, posts events to it and takes
outputs from its mailbox. Back-off, retries and the choice of nodes belong to the core; nothing here repeats a request.
What one connection says and hears is decided by `wire.Dialogue`, which does no I/O.
"""
