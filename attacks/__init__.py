"""Attacks on hkflow: long campaigns that try to break it. `python -m attacks` runs them;
tests/test_attacks.py a small part."""
