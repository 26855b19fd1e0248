"""Atoms that move exactly while the loss gradient of a ReLU or linear network is frozen."""
