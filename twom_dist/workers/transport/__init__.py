"""Arrays between workers of one host: past the connection, not through it."""
