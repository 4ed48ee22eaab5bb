"""The `turngate` command: one module per command group, mounted by `main`."""
