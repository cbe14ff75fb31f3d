#!/usr/bin/env bash
# Regenerates the committed code from the interface definitions. Needs the thrift compiler, 0.17 or newer.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for service in hive_metastore optimizing planner; do
  # Slots make the metastore's many structures smaller and quicker; the planner's few are subclassed.
  options=py
  [ "$service" = hive_metastore ] && options=py:slots
  thrift --gen "$options" -out "$work" "thrift_idl/$service.thrift"
  rm -rf "thrift_idl/$service"
  mkdir "thrift_idl/$service"
  cp "$work/interbed/thrift_idl/$service"/*.py "thrift_idl/$service/"
done
rm -rf thrift_idl/java
mkdir -p thrift_idl/java
thrift --gen java:generated_annotations=suppress -out thrift_idl/java thrift_idl/planner.thrift
