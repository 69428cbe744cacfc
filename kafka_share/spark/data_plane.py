"""How the rows of a lease reach the tasks: with each task, or fetched from the agent; and how large a task is.

For the readers and for those who start agents, on the driver. Decides by the options and by what is known of Spark.
"""

from __future__ import annotations

from typing import Final

from kafka_share.spark.driver_conf import DriverConf
from kafka_share.spark.options import SourceOptions

LARGE_SPLIT_BYTES: Final = 8 << 20
"""What a task fetches at once. With a task no more ever travels unless the options say so: Spark warns from 1 MB on."""
SMALL_SPLIT_BYTES: Final = 900 << 10
"""What travels with a task without a warning, and faster than it would be fetched."""
_TASK_BYTES: Final = 64 << 10
"""What a task has besides the rows."""
_NO_LIMIT: Final = 1 << 40


def most_inline(options: SourceOptions, conf: DriverConf, *, is_elsewhere: bool) -> int:
    """How large a split may be that travels with its task; tasks fetch the others from the agent.

    A task that runs on the agent's host can fetch in any case, which is faster. On others it can if somebody has set
    dataPlaneHost, so there it fetches only what Spark could not send, or not well.
    """
    if options.data_plane == "inline":
        return _NO_LIMIT
    if options.data_plane == "tcp" or is_elsewhere:
        return 0
    return min(SMALL_SPLIT_BYTES if conf.is_local else LARGE_SPLIT_BYTES, conf.max_message_bytes - _TASK_BYTES)


def split_bytes(options: SourceOptions, conf: DriverConf) -> int:
    """How large the splits of a lease are: small ones if they travel with the tasks."""
    if options.split_bytes:
        return options.split_bytes
    is_fetched = options.data_plane == "tcp" or (options.data_plane == "auto" and (conf.is_local or options.agents))
    return LARGE_SPLIT_BYTES if is_fetched else SMALL_SPLIT_BYTES
