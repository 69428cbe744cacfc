"""What `kafka-share-perf` prints as it goes: rows and remarks, on the streams where Kafka's own tool has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import click

from kafka_share.cli.output import print_document
from kafka_share.cli.perf import rows
from kafka_share.cli.perf.date_format import DateFormat
from kafka_share.cli.perf.rows import Row


@attrs.frozen(kw_only=True)
class Report:
    """As text, remarks stand between the rows on standard output; beside JSON they go to standard error."""

    date_format: DateFormat
    apache_only: bool
    as_json: bool

    def header(self) -> None:
        if not self.as_json:
            click.echo(rows.header(self.apache_only))

    def interval(self, number: int, row: Row) -> None:
        """Of the consumer with this number, from 1."""
        if self.as_json:
            self._document(rows.document("interval", row, consumer=number))
        else:
            click.echo(rows.interval(self._text(row), number))

    def consumers(self, each: Sequence[Row], client_ids: Sequence[str]) -> None:
        for number, (row, client_id) in enumerate(zip(each, client_ids, strict=True), 1):
            if self.as_json:
                self._document(rows.document("consumer", row, consumer=number, client_id=client_id))
            else:
                click.echo(rows.consumer(self._text(row), number, client_id))

    def total(self, row: Row, *, complete: bool) -> None:
        """`complete`: as many records came as were asked for. Tells of clocks that do not agree, too."""
        if self.as_json:
            self._document(rows.document("total", row, complete=complete))
        else:
            click.echo(self._text(row))
        if row.latencies.ahead:
            click.echo(
                f"Warning: {row.latencies.ahead} of the records' timestamps are later than their delivery: the clocks "
                "of producers and of this machine do not agree. Latencies below 0 were counted as 0.",
                err=True,
            )

    def metrics(self, client_id: str, groups: Mapping[str, Mapping[str, float]]) -> None:
        if self.as_json:
            self._document({"row": "metrics", "client_id": client_id, "metrics": groups})
        else:
            click.echo(rows.metrics(client_id, groups))

    def remark(self, message: str) -> None:
        click.echo(f"Warning: {message}", err=self.as_json)

    def _text(self, row: Row) -> str:
        return rows.text(row, self.date_format.text, apache_only=self.apache_only)

    @staticmethod
    def _document(document: Mapping[str, Any]) -> None:
        print_document(document)
