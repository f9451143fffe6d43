"""What a rank trains on: formats, batches, shards, and what prepares and spreads them."""
