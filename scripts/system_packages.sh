#!/bin/sh
# Install system packages that tests use, where they are missing: each argument is COMMAND_OR_LIBRARY:PACKAGE.
# A machine without apt-get, or without the right to use it, keeps going: the tests that need one say which.
missing=""
for pair in "$@"; do
    name=${pair%%:*}
    command -v "$name" >/dev/null 2>&1 || ldconfig -p 2>/dev/null | grep -q "$name" || missing="$missing ${pair##*:}"
done
[ -z "$missing" ] && exit 0
echo "installing$missing"
{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null; } ||
    echo "could not be installed:$missing; the tests that need them will be skipped"
exit 0
