"""The only client code with sockets, threads and clocks: connections, and the driver that runs one core on a thread.

A façade has a `background.ConsumerBackground` or an `admin_calls.AdminCalls`, each of which owns a `driver.CoreDriver`
and is, or has, its `ApplicationPort`. Back-off, retries and the choice of nodes belong to the core; nothing here
repeats a request. `wire`, `handshake` and `turns` do no I/O: the simulation of the tests runs them on virtual time.
"""
