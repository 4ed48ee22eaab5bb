"""One folder per provider API: its renderer, its role rules and the normaliser of its stream, versioned side by side."""
