"""Writes the Python blocks of README and of the pages of docs/ as files, for type checkers to look at.

    python tests/static_typing/pages.py FOLDER

`tox run -e types` has mypy and pyright check them, strictly: who copies a block gets no errors from them. A block that
is given a consumer, a broker or an admin client by its test gets them as typed names before its first line.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parent.parent))

from support.documentation import Block, blocks_of, pages

_UNTYPED: Final = re.compile(r"^(from|import) (kafka|aiokafka|confluent_kafka|pyarrow)\b", re.M)
"""What these return has no types."""
_CONSUMER: Final = """
from kafka_share import KafkaShareConsumer


def given_consumer() -> KafkaShareConsumer:
    raise NotImplementedError


consumer = given_consumer()
"""
_ADMIN: Final = _CONSUMER.replace("KafkaShareConsumer", "KafkaShareAdmin").replace("consumer", "admin")
_BROKER: Final = (
    _CONSUMER.replace("from kafka_share ", "from kafka_share.broker ")
    .replace("KafkaShareConsumer", "ReferenceBroker")
    .replace("consumer", "broker")
)
GIVEN: Final = {
    "uses: consumer": _CONSUMER,
    "uses: broker, explicit consumer": _CONSUMER + _BROKER,
    "uses: admin": _ADMIN,
    "uses: tls": "from kafka_share import KafkaShareConsumer\n",
}
"""By the mark of a block, what is before it."""


def write(block: Block, folder: Path) -> None:
    name = f"{block.page.stem}_{block.line}".replace("-", "_").replace(".", "_")
    (folder / f"{name}.py").write_text("# pyright: strict\n" + GIVEN.get(block.mark, "") + block.code, "utf-8")


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.py"):
        old.unlink()
    for page in pages():
        for block in blocks_of(page):
            if block.language == "python" and not block.mark.startswith("not run") and not _UNTYPED.search(block.code):
                write(block, folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
