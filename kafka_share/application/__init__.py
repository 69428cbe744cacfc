"""The application's side of a consumer: everything that runs on the caller's thread."""
