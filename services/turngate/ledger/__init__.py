"""The ledger role."""
