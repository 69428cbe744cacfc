"""`kafka-share-console`: records of a share group on standard output, or lines of standard input into a topic."""
