"""What a tool executor needs: read orders, claim, heartbeat, answer."""
