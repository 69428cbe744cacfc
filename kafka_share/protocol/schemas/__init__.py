"""The JSON schemas of the share-group messages, in Kafka's schema dialect, one file for each request and response.

Read by kafka-python's `ApiMessage` (`load_json=`) when `kafka_share.protocol` is imported. Descriptions are ours;
names, types, versions and order are Kafka's. After a change run `python -m kafka_share.protocol.generate_stubs`.
"""
