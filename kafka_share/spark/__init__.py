"""Share groups as a source of Apache Spark (the extra `spark`): records are accepted when their batch is committed.

- `register(spark)`: makes the formats `kafka_share` and `kafka_share_ack` known to a session
- `batch(spark, options)`: a batch read as a context manager
- `assert_held(df)`: fails if the records of a DataFrame are not acquired any more
- `LeaseAgentError`, `AgentGoneError`, `LeaseLostError`: what can go wrong

docs/spark.md is the page for users. The package is imported by programs that have pyspark; the lease agent, which runs
as a process, imports its own modules only, and no pyspark.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafka_share.spark.failures import AgentGoneError as AgentGoneError
    from kafka_share.spark.failures import LeaseAgentError as LeaseAgentError
    from kafka_share.spark.failures import LeaseLostError as LeaseLostError
    from kafka_share.spark.session import ShareBatch as ShareBatch
    from kafka_share.spark.session import assert_held as assert_held
    from kafka_share.spark.session import batch as batch
    from kafka_share.spark.session import register as register

_HOMES = {
    "AgentGoneError": "failures",
    "LeaseAgentError": "failures",
    "LeaseLostError": "failures",
    "ShareBatch": "session",
    "assert_held": "session",
    "batch": "session",
    "register": "session",
}

if not TYPE_CHECKING:  # they see the imports above
    __all__ = [*_HOMES]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    """Load the module of a name when it is first used (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value
