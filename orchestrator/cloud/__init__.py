"""The only user of openstacksdk: a cloud's catalogue and quotas read, what is ours there found and removed."""
