#!/bin/sh
# Unpacks Debian's packages of syslog daemons, journald's sender and logrotate into a directory, for tests. Nothing is installed, as
# these packages exclude each other and would start services.
set -eu
mkdir -p "$1"
out=$(cd "$1" && pwd)
packages=$2
archives=$out/archives
mkdir -p "$archives/partial"
for package in $(grep -v '^#' "$packages"); do
	# With the libraries that the system lacks.
	apt-get install --yes --no-install-recommends --reinstall --download-only --quiet=2 \
		-o Dir::Cache::archives="$archives" -o Debug::NoLocking=true "$package"
done
for archive in "$archives"/*.deb; do
	dpkg -x "$archive" "$out"
done
rm -r "$archives"
