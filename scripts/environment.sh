# Make .venv and install the package into it, once. Sourced by quickstart and test.
# A changed pyproject.toml or constraints.txt installs again; otherwise this takes no time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11 python; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    fail "Python 3.11 or newer is needed and none was found; install it, or set PYTHON to its path."
}

install() {
    local log=.venv/install.log pid start=$SECONDS
    echo "Installing into .venv (once; several GB, a minute or more). Details: $log"
    .venv/bin/python -m pip install --disable-pip-version-check --constraint constraints.txt \
        --editable '.[dev]' >"$log" 2>&1 &
    pid=$!
    trap 'kill $pid 2>/dev/null || true' EXIT
    while kill -0 "$pid" 2>/dev/null; do
        if [ -t 1 ]; then printf '\r%s s ' $((SECONDS - start)); fi
        sleep 0.5
    done
    trap - EXIT
    if [ -t 1 ]; then printf '\r'; fi
    wait "$pid" || fail "the packages could not be installed; check the network and the disk, then" \
        "run this again. pip said: $(grep -om1 'ERROR: .*' "$log" | cut -c1-200) (all of it: $log)"
    echo "Installed in $((SECONDS - start)) s."
}

if [ ! -e .venv ]; then
    python=$(find_python)
    "$python" -m venv .venv >/dev/null 2>&1 || {
        rm -rf .venv
        fail "'$python -m venv' does not work; on Debian and Ubuntu: apt-get install python3-venv."
    }
fi
broken=".venv is broken or has a Python older than 3.11; remove it (rm -rf .venv) and run this again."
.venv/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
    fail "$broken"
.venv/bin/python -m pip --version >/dev/null 2>&1 || fail "$broken"

wanted=$(cat pyproject.toml constraints.txt | cksum)
if [ "$(cat .venv/installed 2>/dev/null)" != "$wanted" ]; then
    install
    echo "$wanted" >.venv/installed
fi
