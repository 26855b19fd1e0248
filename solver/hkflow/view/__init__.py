"""A run as one page of HTML that turns, plays and answers, and needs nothing else."""
