"""Operations on Lance tables through pylance: rows, columns, indexes, branches and queries of one table.

pylance never runs in the process that writes the ledger, because a query that allocates too much memory kills
its process. Instead, a pool of worker processes (`worker_pool.py`) runs one job per process at a time. The server
still decides which write becomes a version: pylance in the worker asks the catalog through a pipe (`desk.py`),
as any client would over HTTP.
"""
