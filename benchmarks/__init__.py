"""Measurements against the machine's own limits and against other libraries: `python -m
benchmarks`."""
