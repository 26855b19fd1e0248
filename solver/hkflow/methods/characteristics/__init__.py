"""Measures as atoms that move exactly while the loss gradient is frozen: ReLU and linear
features."""
