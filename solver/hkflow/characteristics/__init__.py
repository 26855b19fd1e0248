"""Measures as atoms that move exactly in the potential of ReLU or linear features while its loss gradient is frozen."""
