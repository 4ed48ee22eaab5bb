"""Embedded Kafka and Redis, process supervision, simulators: for development and tests, not for the roles."""
