#!/bin/sh
# Starts the catalog server from environment variables; arguments are added to the command. Works outside of a container, too:
#   INTERBED_DB=sqlite:////tmp/m.db INTERBED_WAREHOUSE=file:/tmp/wh INTERBED_PORT=0 sh docker/entrypoint.sh
# The server takes all its settings from INTERBED_SERVER_… (see docs/operating.md); the commonest have short names here.
# INTERBED_DB_PASSWORD_FILE names a file (a secret) that holds the password of a PostgreSQL database; it never appears among the arguments.
set -eu

# What is said by a short name is said for this container, and goes before the image's defaults.
if [ -n "${INTERBED_HOST:-}" ]; then export INTERBED_SERVER_HOST="$INTERBED_HOST"; fi
if [ -n "${INTERBED_PORT:-}" ]; then export INTERBED_SERVER_PORT="$INTERBED_PORT"; fi
if [ -n "${INTERBED_DB:-}" ]; then export INTERBED_SERVER_DB="$INTERBED_DB"; fi
if [ -n "${INTERBED_WAREHOUSE:-}" ]; then export INTERBED_SERVER_WAREHOUSE="$INTERBED_WAREHOUSE"; fi
if [ -n "${INTERBED_LOG_LEVEL:-}" ]; then export INTERBED_SERVER_LOG_LEVEL="$INTERBED_LOG_LEVEL"; fi

if [ -n "${INTERBED_DB_PASSWORD_FILE:-}" ]; then
    if [ ! -r "$INTERBED_DB_PASSWORD_FILE" ]; then
        echo "INTERBED_DB_PASSWORD_FILE: cannot read $INTERBED_DB_PASSWORD_FILE" >&2
        exit 1
    fi
    # PostgreSQL's client library takes it from there.
    PGPASSWORD=$(cat "$INTERBED_DB_PASSWORD_FILE")
    export PGPASSWORD
fi

# exec: the server gets the signals of `docker stop` itself and can end cleanly.
exec interbed server "$@"
