"""Google's Compute Engine, IAM and Resource Manager, asked over HTTP: the only user of google-auth.

Credentials, project and endpoints are found in the environment where Terraform's provider looks for them, so that both
speak with the same cloud as the same user, or with the same stand-in.
"""

from orchestrator.google.client import Document, Google, path_of, together

__all__ = ["Document", "Google", "path_of", "together"]
