"""The edge role."""
