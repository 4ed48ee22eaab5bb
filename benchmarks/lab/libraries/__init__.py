"""One module per library; each runs in the lab's venv, without turngate."""
