#!/bin/sh
# Runs a real Apache Kafka broker (KRaft) on loopback, for tests and experiments. Kafka's jars come
# from Maven Central; the data is in .skald-kafka/.
#
#   scripts/kafka.sh start    start the broker unless it runs, and print its address
#   scripts/kafka.sh stop     stop that broker; the next start creates an empty cluster
#   scripts/kafka.sh with make test
#                             run a command with the broker, so that its Kafka tests use it; chaos
#                             campaigns also start and kill brokers of their own
#   scripts/kafka.sh test     run only the Kafka tests: the integration suite of internal/kafka,
#                             real consumers that write dead letters (scripts/kafka/consumers),
#                             the session of docs/kafka.md and a short campaign
#   scripts/kafka.sh records  rewrite the records of those consumers, which make test reads
#                             (internal/dlq/testdata/consumers)
#   scripts/kafka.sh chaos    run the long campaign: 10,000 records in topics that are deleted and recreated
#
# KAFKA_PORT is the broker's port, and the controller uses the next one; by default, two free ports
# are used. While the broker runs, its address is in .skald-kafka/address. MAVEN_CENTRAL is the URL
# of a mirror of Maven Central, if Maven's settings (~/.m2/settings.xml) do not name one.
#
# Exit status 3 means that Kafka cannot run here; the last line says why. Any
# other status except 0 is a failure.
set -eu
cd "$(dirname "$0")/.."
dir=$(pwd)/.skald-kafka
address=$dir/address
version=4.1.0
campaign='TestDeadLettersSurviveRecreatedTopics/Apache'

unavailable() {
	echo "REAL KAFKA IS NOT AVAILABLE: $1" >&2
	exit 3
}

running() { [ -f "$dir/pid" ] && kill -0 "$(cat "$dir/pid")" 2>/dev/null; }

# usable succeeds if there is a Java on which Kafka 4 can run.
usable() { command -v java >/dev/null && [ "$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p')" -ge 17 ] 2>/dev/null; }

install() {
	[ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null || return 0
	echo "installing $* with apt" >&2
	apt-get -qq update >&2 || true # the existing package lists may suffice
	DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install "$@" >&2 || true
}

# fetch POM FOLDER copies the dependencies in a pom into a folder, once.
fetch() {
	[ -f "$2/.complete" ] && return 0
	command -v mvn >/dev/null || install maven
	command -v mvn >/dev/null || { echo "Maven (mvn) is missing, which fetches Java programs" >&2; return 1; }
	mkdir -p "$dir"
	from=$1 to=$2
	set -- -q -B -f "$from"
	if [ -n "${MAVEN_CENTRAL:-}" ]; then
		cat >"$dir/settings.xml" <<-XML
			<settings><mirrors><mirror><id>central-mirror</id><mirrorOf>central</mirrorOf><url>$MAVEN_CENTRAL</url></mirror></mirrors></settings>
		XML
		set -- "$@" -s "$dir/settings.xml"
	fi
	rm -rf "$to"
	if ! mvn "$@" org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$to" >"$dir/maven.log" 2>&1; then
		tail -n 3 "$dir/maven.log" >&2
		return 1
	fi
	touch "$to/.complete"
}

jars() {
	[ -f "$dir/libs/kafka_2.13-$version.jar" ] || rm -f "$dir/libs/.complete"
	fetch scripts/kafka/pom.xml "$dir/libs" || unavailable "Maven could not fetch Kafka's jars (all of it is in $dir/maven.log)"
}

# consumers fetches and compiles real consumers that write dead letters: Spring for Apache Kafka,
# Spring Cloud Stream, Kafka Connect. Their tests are skipped without them.
consumers() {
	command -v javac >/dev/null || install default-jdk-headless
	if command -v javac >/dev/null && fetch scripts/kafka/consumers/spring/pom.xml "$dir/spring" &&
		fetch scripts/kafka/consumers/connect/pom.xml "$dir/connect" &&
		javac -nowarn -cp "$dir/spring/*" -d "$dir/classes" scripts/kafka/consumers/spring/*.java; then
		export TEST_KAFKA_CONSUMERS="$dir"
	else
		echo "REAL CONSUMERS ARE NOT AVAILABLE: only their recorded records are tried" >&2
	fi
}

programs() {
	usable || install default-jre-headless
	usable || unavailable "there is no Java 17 or later"
	jars
}

# The test broker lives for minutes and is mostly idle: using only the quick compiler halves its
# CPU time. For measurements, KAFKA_JAVA_OPTIONS='' starts a broker with the usual options.
java_options=${KAFKA_JAVA_OPTIONS--XX:TieredStopAtLevel=1 -XX:+UseSerialGC}

# shellcheck disable=SC2086 # several options
kafka() { java $java_options -cp "$dir/libs/*" -Dorg.slf4j.simpleLogger.defaultLogLevel=warn "$@"; }

# start_on PORT starts the broker and fails if it exits or does not come up.
start_on() {
	controller=$(($1 + 1))
	rm -rf "$dir/data" # every start creates a new, empty cluster
	mkdir -p "$dir/data"
	cat >"$dir/server.properties" <<-PROPERTIES
		process.roles=broker,controller
		node.id=1
		controller.quorum.voters=1@127.0.0.1:$controller
		listeners=PLAINTEXT://127.0.0.1:$1,CONTROLLER://127.0.0.1:$controller
		advertised.listeners=PLAINTEXT://127.0.0.1:$1
		controller.listener.names=CONTROLLER
		listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
		log.dirs=$dir/data
		auto.create.topics.enable=false
		group.initial.rebalance.delay.ms=0
		offsets.topic.replication.factor=1
		offsets.topic.num.partitions=4
		transaction.state.log.replication.factor=1
		transaction.state.log.min.isr=1
		share.coordinator.state.topic.replication.factor=1
		share.coordinator.state.topic.min.isr=1
		socket.request.max.bytes=209715200
		replica.fetch.max.bytes=20971520
	PROPERTIES
	kafka kafka.tools.StorageTool format --standalone -t "$(kafka kafka.tools.StorageTool random-uuid)" -c "$dir/server.properties" >"$dir/format.log" 2>&1 || {
		cat "$dir/format.log" >&2
		exit 1
	}
	# shellcheck disable=SC2086 # as above
	nohup java $java_options -Xms256m -Xmx1g -cp "$dir/libs/*" -Dorg.slf4j.simpleLogger.showDateTime=true kafka.Kafka "$dir/server.properties" >"$dir/broker.log" 2>&1 </dev/null &
	echo $! >"$dir/pid"
	for _ in $(seq 1200); do # five minutes, because the machine may be busy
		if grep -q 'Kafka Server started' "$dir/broker.log"; then
			echo "127.0.0.1:$1" >"$address"
			return 0
		fi
		running || return 1
		sleep 0.25
	done
	return 1
}

start() {
	if running; then return 0; fi
	programs
	for try in 1 2 3 4 5; do
		# Below the range from which the system assigns ports, and a different one for each
		# attempt.
		if start_on "${KAFKA_PORT:-$((20000 + ($$ + try * 2741) % 6000 * 2))}"; then return 0; fi
		stop
		if [ -n "${KAFKA_PORT:-}" ] || ! grep -qE 'BindException|Address already in use' "$dir/broker.log"; then break; fi
	done
	tail -n 20 "$dir/broker.log" >&2
	echo "the broker did not start; its log is $dir/broker.log" >&2
	exit 1
}

stop() {
	running || { rm -f "$dir/pid"; return 0; }
	pid=$(cat "$dir/pid")
	kill "$pid"
	for _ in $(seq 80); do
		kill -0 "$pid" 2>/dev/null || break
		sleep 0.25
	done
	kill -9 "$pid" 2>/dev/null || true
	rm -f "$dir/pid" "$address"
}

case ${1:-} in
start)
	start
	echo "Apache Kafka $version on $(cat "$address"), process $(cat "$dir/pid"); stop it with make kafka-stop"
	;;
stop) stop ;;
with | test)
	if ! running; then
		trap stop EXIT
		trap 'exit 1' HUP INT TERM
		start
	fi
	TEST_KAFKA_BROKERS=$(cat "$address")
	echo "the Kafka tests run on Apache Kafka $version, $TEST_KAFKA_BROKERS"
	export TEST_KAFKA_BROKERS TEST_KAFKA_LIBS="$dir/libs"
	if [ "$1" = with ]; then
		shift
		"$@"
	else
		consumers
		${GO:-go} test -count=1 -timeout 10m ./internal/kafka
		${GO:-go} test -count=1 -timeout 10m -run TestThePageOfKafka ./internal/test/manual
		${GO:-go} test -v -count=1 -timeout 10m -run "$campaign" ./internal/test/chaos
	fi
	;;
records)
	if ! running; then
		trap stop EXIT
		trap 'exit 1' HUP INT TERM
		start
	fi
	consumers
	TEST_KAFKA_BROKERS=$(cat "$address") ${GO:-go} test -count=1 -timeout 10m -run TestWhatRealConsumers ./internal/kafka -update-records
	;;
chaos)
	programs
	TEST_CHAOS=long TEST_KAFKA_LIBS=$dir/libs ${GO:-go} test -v -count=1 -timeout 40m -run "$campaign" ./internal/test/chaos
	;;
*)
	sed -n '2,25p' "$0" >&2
	exit 2
	;;
esac
