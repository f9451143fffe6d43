#!/bin/sh
# Run the story of the local cluster, and tests that need a cloud, on a real OpenStack.
# E2E_SETTINGS names a file with the keys of cluster.yaml for that cloud (default: docs/examples/openstack.yaml).
# E2E_ADMIN_CLOUD names an administrator's entry of clouds.yaml, for tests that change a quota or create a flavor.
set -eu
cd "$(dirname "$0")/.."
E2E_SETTINGS=${E2E_SETTINGS:-$PWD/docs/examples/openstack.yaml}
E2E_PROVIDER=openstack
export E2E_SETTINGS E2E_PROVIDER

lacks() { echo "e2e-openstack: $*" >&2; exit 2; }

test -r "$E2E_SETTINGS" || lacks "E2E_SETTINGS: $E2E_SETTINGS cannot be read"
command -v openstack > /dev/null || lacks "the openstack client is missing; the tests list resources with it (apt-get install python3-openstackclient)"
openstack token issue > /dev/null || lacks "no cloud: set OS_CLOUD (and OS_CLIENT_CONFIG_FILE, if clouds.yaml is elsewhere) or OS_*"
if [ -n "${E2E_ADMIN_CLOUD:-}" ]; then
  openstack --os-cloud "$E2E_ADMIN_CLOUD" token issue > /dev/null || lacks "E2E_ADMIN_CLOUD: $E2E_ADMIN_CLOUD is refused"
else
  echo "e2e-openstack: tests that change a quota or create a flavor will be skipped: E2E_ADMIN_CLOUD is not set" >&2
fi
roots=$(mktemp -d)
trap 'rm -rf "$roots"' EXIT
trap 'exit 130' INT TERM # dash runs no EXIT trap for a signal
cp -r terraform/openstack terraform/contract "$roots"
PATH=$PWD/.venv/bin:$PATH
terraform=$(command -v terraform || command -v tofu)
"$terraform" -chdir="$roots/openstack" init -input=false > "$roots/log" 2>&1 || {
  tail -5 "$roots/log" >&2
  lacks "Terraform finds no provider: connect to its registry, or name a mirror in TF_CLI_CONFIG_FILE"
}
prove() { scripts/with-docker.sh .venv/bin/python -m pytest --exitfirst --timeout 7200 "$@"; } # guests may be emulated
prove -m everywhere tests/e2e/test_story.py "$@"
prove tests/cloud "$@"
