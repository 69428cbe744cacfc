"""Other libraries' workers on share groups: `bridges.taskiq`, `bridges.faststream`, and `bridges.kombu` for Celery.

Each module needs its library, which is an extra. Nothing else in the package imports them. docs/bridges.md has what
each library's contract can carry, and what it cannot.
"""
