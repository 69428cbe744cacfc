"""The page of the reference broker (`kafka-share-broker --ui`): what it has, live, for a browser on this machine."""
