#!/usr/bin/env bash
# The image's own steps, in the folder of the project that it keeps; the Dockerfile calls them, and so does `make image-steps`.
#   infra/image/build.sh packages   what the pins alone decide: packages and jars, each checked by its hash
#   infra/image/build.sh project    the project itself, its kernels compiled; then what only tests and builds need goes
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

case "${1:-}" in
packages)
    exec make --no-print-directory .venv/.done/jars
    ;;
project)
    make --no-print-directory setup
    .venv/bin/python infra/image/prune.py
    ;;
*)
    echo "usage: $0 packages | project" >&2
    exit 2
    ;;
esac
