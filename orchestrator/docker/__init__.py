"""Docker: the engine, the images and their build context."""
