"""`kafka-share export-lag`: Prometheus metrics of share groups over HTTP, for autoscalers and alerts."""
