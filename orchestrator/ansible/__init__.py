"""Ansible: the playbook run, and its inventory."""
