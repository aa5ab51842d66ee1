#!/bin/sh
# on_own_host.sh PROGRAM ARGUMENT...
#
# Runs a worker, which TF_CONFIG names, as if it were alone on its host, so that workers meet through an engine.
index=$(printf '%s' "$TF_CONFIG" | sed 's/.*"index": *\([0-9]*\).*/\1/')
LOCKSTEP_HOST_ID="the host of worker $index" exec "$@"
