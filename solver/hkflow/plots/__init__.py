"""Pictures made from runs alone."""
