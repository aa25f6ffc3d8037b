"""The workers of a cluster: what they have, how they start, and how they send tiles."""
