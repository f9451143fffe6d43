"""Communication among ranks: allreduce, and gradients in 16 bits."""
