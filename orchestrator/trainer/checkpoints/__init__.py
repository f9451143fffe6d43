"""Content and directory of checkpoints."""
