"""What is behind `kafka_share.worker`: the rules of a worker as a machine, and the two drivers that run handlers."""
