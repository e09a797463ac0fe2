"""The commands that work on a cluster: `hermes topics | groups | produce | consume | cluster |
config`, over `client`, against any broker that speaks the Kafka protocol.

`tree` is the table of all of them; parsing (`parsing`), completion, and docs/cli.md are made from
it. A command decides in pure functions and says what it has to through `terminal`.
"""
