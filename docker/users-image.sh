#!/bin/sh
# Check a user's own image for the framework that the first argument names, and collect in /added what it lacks of the
# worker side: packages, and Python under the name that it has on every node.
set -eu
refuse() {
  echo "the image cannot be used: $1" >&2
  exit 1
}

python=$(command -v /opt/orchestrator/bin/python || command -v python3 || command -v python) || refuse 'it has no Python'
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  refuse "it has $("$python" --version), Python 3.11 or newer is needed"
command -v apt-get > /dev/null || refuse 'it has no apt-get: images of Debian and Ubuntu can be used'
"$python" -c 'import horovod' || refuse 'its Python has no Horovod'
case "$1" in
  tensorflow) modules=horovod.tensorflow ;;
  pytorch) modules=horovod.torch ;;
  both) modules='horovod.tensorflow horovod.torch' ;;
esac
for module in $modules; do
  "$python" -c "import sys, $module as hvd; sys.exit(not hvd.gloo_built())" ||
    refuse "its Horovod was not built for $1 with Gloo; 'framework' in cluster.yaml says which framework it is for"
done

site=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
mkdir -p "/added$site" /added/opt/orchestrator/bin
printf '/opt/orchestrator/src\n/opt/orchestrator/packages\n' > "/added$site/orchestrator.pth"
"$python" -c '
try:
    import pydantic
except ImportError:
    raise SystemExit(0)
raise SystemExit(pydantic.VERSION.startswith("1."))
' || refuse "its pydantic is older than version 2, which the worker side needs"
if ! "$python" -c 'import prometheus_client, psutil, pydantic, pynvml' 2> /dev/null; then
  PIP_CERT=/tmp/ca-bundle.crt "$python" -m pip install --require-hashes --target /added/opt/orchestrator/packages \
    --no-cache-dir --no-deps --only-binary :all: --requirement /tmp/requirements-worker.txt ||
    refuse "its pip cannot install what the worker side imports"
fi
if test "$python" != /opt/orchestrator/bin/python; then
  # A script, not a link: if started by a link, Python does not find its virtual environment.
  for program in python horovodrun; do
    command="$python"
    test "$program" = python || command="$(dirname "$python")/$program"
    printf '#!/bin/sh\nexec %s "$@"\n' "$command" > "/added/opt/orchestrator/bin/$program"
    chmod 755 "/added/opt/orchestrator/bin/$program"
  done
fi
