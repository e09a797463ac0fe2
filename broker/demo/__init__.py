"""The demo workload: order events and the groups that read them."""
