"""Python packages of users, installed on top of the image's on the storage that all nodes share."""
