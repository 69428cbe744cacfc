"""librdkafka's mock broker as a process, by the C functions that the wheel of confluent-kafka brings.

    python -m performance.librdkafka_mock

Prints where it listens, then makes a topic for each line `NAME PARTITIONS` that it reads, and says so, until its input
ends. Share groups begin at the earliest record: the mock has no group configs that could say it.
"""

from __future__ import annotations

import ctypes
import importlib.util
import sys
from pathlib import Path
from typing import Any, Final

_PRODUCER: Final = 0
_EARLIEST: Final = 1


def library() -> Any:
    """The shared library beside the package; raises FileNotFoundError where it is part of the extension."""
    import confluent_kafka  # noqa: F401 - loads what the library needs

    spec = importlib.util.find_spec("confluent_kafka")
    assert spec is not None
    assert spec.origin is not None
    beside = Path(spec.origin).parent.with_name("confluent_kafka.libs")
    found = next(beside.glob("librdkafka-*.so*"), None)
    if found is None:
        raise FileNotFoundError(f"the wheel of confluent-kafka has no librdkafka in {beside}")
    return ctypes.CDLL(str(found))


def main() -> None:
    functions = library()
    for name in ("rd_kafka_new", "rd_kafka_conf_new", "rd_kafka_mock_cluster_new"):
        getattr(functions, name).restype = ctypes.c_void_p
    functions.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    problem = ctypes.create_string_buffer(512)
    conf = ctypes.c_void_p(functions.rd_kafka_conf_new())
    handle = ctypes.c_void_p(functions.rd_kafka_new(_PRODUCER, conf, problem, ctypes.c_size_t(len(problem))))
    if handle.value is None:
        sys.exit(problem.value.decode())
    cluster = ctypes.c_void_p(functions.rd_kafka_mock_cluster_new(handle, 1))
    functions.rd_kafka_mock_sharegroup_set_auto_offset_reset(cluster, _EARLIEST)
    sys.stdout.write(f"bootstrap: {functions.rd_kafka_mock_cluster_bootstraps(cluster).decode()}\n")
    sys.stdout.flush()
    for line in sys.stdin:
        topic, partitions = line.split()
        error = functions.rd_kafka_mock_topic_create(cluster, topic.encode(), int(partitions), 1)
        sys.stdout.write(f"{topic}: {error}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
