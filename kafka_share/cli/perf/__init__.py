"""`kafka-share-perf`: how fast a share group can be read here, how old records are then, and what that costs."""
