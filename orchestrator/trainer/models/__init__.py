"""Networks, built of Keras layers: `registry` has them by name. Each module cites the papers of its networks."""
