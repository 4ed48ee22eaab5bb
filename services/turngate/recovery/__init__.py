"""The recovery role."""
