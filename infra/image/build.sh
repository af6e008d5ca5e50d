#!/usr/bin/env bash
# Run a build step of the image in the project folder; the Dockerfile calls it, and so does `make image-steps`.
#   infra/image/build.sh packages   install the pinned packages and jars, each checked by its hash
#   infra/image/build.sh project    install the project and compile its kernels; uninstall what only tests and builds need
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
