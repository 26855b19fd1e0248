"""Studies: many runs of a case that differ in some keys, and what they tell together."""
