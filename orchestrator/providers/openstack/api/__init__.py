"""Read a cloud's catalogue and quotas, find and remove the clusters' resources. The only user of openstacksdk."""
