"""The only plumbing that touches the world: settings, Kafka workers, Redis, health, metrics, logging, clock."""
