"""A Kafka client on the Network, Clock and IdSource ports: it runs in the simulator as it runs
against Apache Kafka.

`cluster` finds brokers and leaders over `connection`s; `producer`, `consumer` and `admin` work on a
cluster; `blocking` is for code without an event loop. Nothing here starts a thread but `blocking`,
or a task without an owner.
"""
