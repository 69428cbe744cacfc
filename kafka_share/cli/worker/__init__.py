"""`kafka-share worker`: runs a handler of the user's as a worker."""
