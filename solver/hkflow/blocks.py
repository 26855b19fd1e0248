"""Fixed blocks of cells: the unit of parallel work, the same for every number of threads.

A sum is kept per block and the blocks are added in order, so a result does not depend on how many threads made it.
"""

BLOCK = 512


def n_blocks(n):
    """Number of blocks that cover n items."""
    return -(-n // BLOCK)
