"""One folder per provider API: its renderer, role rules and stream normaliser, versioned side by side."""
