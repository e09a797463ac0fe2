"""Live data: the sampler (one per cluster, wherever it runs) looks at clusters and judges; sockets
push what it found.

Pure: observation, metricstext, endhistory, progress, trend, groupjudge, clusterstate. Shells: look,
sampler, sampling, consumer. Nothing here is needed to show a page: pages read
`hermes_console.samples`.
"""
