"""What a broker with a data directory has besides: files, a journal of metadata, and answers that wait for them."""
