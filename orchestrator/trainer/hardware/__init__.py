"""What a node's processor is."""
