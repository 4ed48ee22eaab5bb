"""The validator role."""
