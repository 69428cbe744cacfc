"""Spark looks for modules called pyspark_… and registers their DefaultSource: here the format kafka_share_ack.

An import that fails here would take all Python sources of a session with it, so without pyarrow there is none.
"""

from importlib.util import find_spec

if find_spec("pyarrow") is not None:
    from kafka_share.spark.ack_sink import ShareAckSink as DefaultSource  # noqa: F401
