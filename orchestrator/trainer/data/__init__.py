"""Training data: formats, batches, shards, and programs that prepare and distribute them."""
