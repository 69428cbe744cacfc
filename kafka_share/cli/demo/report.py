"""The result of a run of the demo: one value, made from the ledger when the run has ended.

Made by the job, shown by `kafka_share.cli.demo.command`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from kafka_share.cli.demo.definitions import Definitions
from kafka_share.cli.demo.ledger import Ledger, Settlement, WorkerTally


@attrs.frozen(kw_only=True)
class Report:
    """The result of one run. `problems` is empty if every file was settled exactly once and no worker failed."""

    files: int
    bytes_published: int
    left_out: Mapping[str, int]
    """Reason → how many files of the input were not published."""
    settlements: Mapping[Settlement, int]
    workers: tuple[WorkerTally, ...]
    delivery_counts: Mapping[int, int]
    """Delivery count → files settled at it."""
    delivery_count_limit: int
    reject_reasons: Mapping[str, int]
    rejected_files: tuple[str, ...]
    definitions: Definitions
    seconds: float
    """From the first delivery to the last settlement."""
    seed: int
    problems: tuple[str, ...]

    @classmethod
    def from_ledger(
        cls, ledger: Ledger, *, bytes_published: int, left_out: Mapping[str, int], seconds: float, seed: int
    ) -> Report:
        return cls(
            files=ledger.published,
            bytes_published=bytes_published,
            left_out=dict(left_out),
            settlements=ledger.settlements(),
            workers=tuple(ledger.workers),
            delivery_counts=ledger.delivery_counts(),
            delivery_count_limit=ledger.limit,
            reject_reasons=dict(sorted(ledger.reject_reasons.items())),
            rejected_files=tuple(sorted(ledger.rejected_files)),
            definitions=ledger.definitions,
            seconds=seconds,
            seed=seed,
            problems=tuple(ledger.problems()),
        )

    @property
    def ok(self) -> bool:
        return not self.problems

    @property
    def files_per_second(self) -> float:
        return self.files / self.seconds if self.seconds else 0.0

    @property
    def mebibytes_per_second(self) -> float:
        return self.bytes_published / 2**20 / self.seconds if self.seconds else 0.0

    def total(self, column: str) -> int:
        """The sum of one count of `WorkerTally` over all workers."""
        return sum(int(getattr(tally, column)) for tally in self.workers)

    def as_json(self) -> dict[str, Any]:
        """The same as plain values, for `json.dumps`."""
        return {
            "ok": self.ok,
            "problems": list(self.problems),
            "files": self.files,
            "bytes": self.bytes_published,
            "left_out": dict(self.left_out),
            "settled": {kind.value: self.settlements.get(kind, 0) for kind in Settlement},
            "released": self.total("released"),
            "redelivered": self.total("redelivered"),
            "dropped": self.total("dropped"),
            "failed_acknowledgements": self.total("failed"),
            "workers": [attrs.asdict(tally) | {"worker": tally.worker + 1} for tally in self.workers],
            "delivery_counts": {str(count): files for count, files in self.delivery_counts.items()},
            "delivery_count_limit": self.delivery_count_limit,
            "reject_reasons": dict(self.reject_reasons),
            "rejected_files": list(self.rejected_files),
            "definitions": attrs.asdict(self.definitions),
            "seconds": round(self.seconds, 3),
            "files_per_second": round(self.files_per_second, 1),
            "mebibytes_per_second": round(self.mebibytes_per_second, 2),
            "seed": self.seed,
        }
