"""The shape of a case file: every key, its type, its default and its meaning. `hkflow schema`
prints it as JSON schema."""
