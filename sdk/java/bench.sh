#!/bin/sh
# Prints the cost of one logging call while a node receives. BUCKSAW_BIN names the program.
set -eu
cd "$(dirname "$0")"
mvn -B -ntp -q test-compile dependency:build-classpath -Dmdep.outputFile=target/classpath
exec "${JAVA_HOME:+$JAVA_HOME/bin/}java" -Xmx1g \
  -cp "target/classes:target/test-classes:$(cat target/classpath)" dev.bucksaw.Bench
