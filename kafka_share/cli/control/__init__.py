"""The control port of the reference broker (`kafka-share-broker --control`): for tests in other languages."""
