"""Processes for work that would disturb the process of the server.

A thread that computes holds the lock of the interpreter most of the time, and every request waits for that lock several
times. A process has a lock of its own. The server starts a process when it is first needed, and talks to it through a
pipe (decisions 0006 and 0020).
"""
