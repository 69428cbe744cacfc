"""What differs between the versions of Spark, under one name each: read limits and the trigger availableNow.

Spark 4.2 brought them. In 4.0 and 4.1 a source has no say in them; the names are then placeholders that Spark never
sees.
"""

from __future__ import annotations

import attrs

try:
    from pyspark.sql.streaming.datasource import ReadMaxRows, SupportsTriggerAvailableNow
except ImportError:

    @attrs.frozen
    class ReadMaxRows:  # type: ignore[no-redef]
        """As in Spark 4.2."""

        max_rows: int

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """As in Spark 4.2."""


__all__ = ["ReadMaxRows", "SupportsTriggerAvailableNow"]
