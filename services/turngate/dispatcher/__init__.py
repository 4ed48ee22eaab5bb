"""The dispatcher role."""
