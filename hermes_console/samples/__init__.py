"""What was observed of each cluster: the latest snapshot, its history, and who may observe. No
clocks, no sockets.

`snapshot.py` holds the frozen shapes, `models.py` the tables, `store.py` writes them, `read.py` is
what pages, API and live sockets read, `downsample.py` thins the history, `lease.py` decides which
process samples.
"""
