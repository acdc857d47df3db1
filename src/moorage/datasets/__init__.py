"""Lance datasets as pylance sees them: rows, columns, indexes, branches and queries of one table.

pylance never runs in the process that writes the ledger: a query that asks for too much memory ends the
process it runs in. So a workshop keeps a few worker processes, and each does one piece of work at a time.
What becomes a version is decided here all the same: the worker's pylance asks the catalog through its pipe
(`desk.py`), as any client would over HTTP.
"""
