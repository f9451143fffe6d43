"""Networks, built of Keras layers: `networks_by_name` builds them. Each module cites the papers of its networks."""
