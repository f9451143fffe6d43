"""Client of Google's Compute Engine, IAM and Resource Manager over HTTP. The only user of google-auth.

Credentials, project and endpoints are read from the environment in the same way as by Terraform's provider. Therefore
both use the same cloud, or the same test server, as the same user.
"""

from orchestrator.providers.gcp.api.client import Document, Google, path_of

__all__ = ["Document", "Google", "path_of"]
