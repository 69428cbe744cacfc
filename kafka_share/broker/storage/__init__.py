"""Topics, their partitions and the records in them, kept in memory."""
