#!/bin/sh
# Lints and tests this directory. BUCKSAW_BIN names the program, by default that of the repository's target directory.
set -eu
cd "$(dirname "$0")"
environment=$(cd ../.. && pwd)/target/sdk/python
python=$environment/bin/python
python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo 'Python 3.10 or newer is missing' >&2; exit 1; }
# Installs again only if the list or the version of Python changed.
stamp=$(python3 -V; cat requirements-dev.txt)
if [ "$(cat "$environment/stamp" 2>/dev/null)" != "$stamp" ]; then
    python3 -m venv --clear "$environment"
    "$python" -m pip install --quiet --disable-pip-version-check --requirement requirements-dev.txt
    printf '%s\n' "$stamp" > "$environment/stamp"
fi
export PYTHONDONTWRITEBYTECODE=1
"$python" -m ruff --quiet format --no-cache --check .
"$python" -m ruff --quiet check --no-cache .
"$python" -m mypy --no-error-summary --cache-dir "$environment/mypy"
# The package as a user installs it, checked as a user checks a program with it.
"$python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --force-reinstall .
(cd / && "$python" -I -m mypy --no-error-summary --strict --cache-dir "$environment/mypy" --command \
    'import bucksaw, bucksaw.structlog; bucksaw.Handler(bucksaw.Client()); bucksaw.structlog.Processor(bucksaw.Client())')
exec "$python" -m pytest --quiet "$@"
