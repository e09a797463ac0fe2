"""`hermes bench`: what a broker does, measured from outside.

The load runs in processes of its own and reports its own CPU time: a row says so when the load,
not the broker, was the limit. Not part of the tests: a machine under test is not a benchmark.
"""
