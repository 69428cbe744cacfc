"""The admin client without I/O: one generator per operation, and the machine that runs them.

An operation (`groups`, `offsets`, `configs`, `cluster`) yields what it wants to ask, and of whom; `routing` has the
questions that many of them share; `machine.AdminCore` turns them into requests and hands the answers back. The façades
make operations and hand them to the machine on their background thread; nothing here knows sockets, threads or clocks.
"""
