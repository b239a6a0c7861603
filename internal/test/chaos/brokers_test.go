package chaos

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testnet"
)

// brokers is the Kafka cluster of a run, one of whose brokers may be down for a while.
type brokers interface {
	fmt.Stringer
	addrs() []string
	// leave takes a broker down and returns once it is back.
	leave(ctx context.Context, dice *rand.Rand, outage time.Duration) error
	close()
}

// fakeBrokers run in this process. A broker that is down closes every connection.
type fakeBrokers struct {
	w       *world
	cluster *kfake.Cluster
	away    atomic.Int32 // broker that is down; -1: none
}

func startFakeBrokers(w *world) (*fakeBrokers, error) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(3))
	if err != nil {
		return nil, err
	}
	b := &fakeBrokers{w: w, cluster: cluster}
	b.away.Store(-1)
	cluster.Control(func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		// A client that gets no response even to the version request assumes TLS and gives up, so
		// that request is always answered.
		if req.Key() != kmsg.ApiVersions.Int16() && cluster.CurrentNode() == b.away.Load() {
			return nil, errors.New("the broker is away"), true
		}
		return nil, nil, false
	})
	return b, nil
}

func (b *fakeBrokers) String() string  { return "three brokers that hang up" }
func (b *fakeBrokers) addrs() []string { return b.cluster.ListenAddrs() }
func (b *fakeBrokers) close()          { b.cluster.Close() }

func (b *fakeBrokers) leave(ctx context.Context, dice *rand.Rand, outage time.Duration) error {
	gone := dice.Int32N(3)
	b.w.log.write("broker %d is away for %s", gone, outage)
	b.away.Store(gone)
	pause(ctx, outage)
	b.away.Store(-1)
	return nil
}

// realBroker is an Apache Kafka server, broker and controller in one, with its own data directory.
// It is killed with SIGKILL: the kernel still holds everything that it has acknowledged, so it
// finds that data again.
type realBroker struct {
	w        *world
	dir      string
	addr     string
	classes  string
	log      *os.File
	proc     *process
	settings string // path of its settings file
}

// realSettings are the settings other than addresses and directories. The last lines let the broker
// serve clients as soon as it is back; otherwise the controller would consider the killed broker
// alive for nine seconds.
const realSettings = `process.roles=broker,controller
node.id=1
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
auto.create.topics.enable=false
group.initial.rebalance.delay.ms=0
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
`

func startRealBroker(w *world, libs string) (*realBroker, error) {
	libs, err := filepath.Abs(libs)
	if err != nil {
		return nil, err
	}
	b := &realBroker{w: w, dir: filepath.Join(w.dir, "kafka"), classes: filepath.Join(libs, "*")}
	controller := ""
	for _, addr := range []*string{&b.addr, &controller} {
		if *addr, err = testnet.Free(); err != nil {
			return nil, err
		}
	}
	if err := os.Mkdir(b.dir, 0o700); err != nil {
		return nil, err
	}
	b.settings = filepath.Join(b.dir, "server.properties")
	settings := realSettings + fmt.Sprintf(
		"controller.quorum.voters=1@%s\nlisteners=PLAINTEXT://%s,CONTROLLER://%s\nadvertised.listeners=PLAINTEXT://%s\nlog.dirs=%s\n",
		controller,
		b.addr,
		controller,
		b.addr,
		filepath.Join(b.dir, "data"),
	)
	if err := os.WriteFile(b.settings, []byte(settings), 0o600); err != nil {
		return nil, err
	}
	if b.log, err = os.OpenFile(filepath.Join(w.dir, "kafka.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY,
		0o600); err != nil {
		return nil, err
	}
	id := uuid.New()
	id[0] &= 0x7f // otherwise the id may begin with a dash
	format := b.java(
		"kafka.tools.StorageTool",
		"format",
		"--standalone",
		"-t",
		base64.RawURLEncoding.EncodeToString(id[:]),
		"-c",
		b.settings,
	)
	if err := format.Run(); err != nil {
		return nil, fmt.Errorf("format the data of Kafka, its log is %s: %w", b.log.Name(), err)
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), patience.Limit)
	defer cancel()
	if err := b.start(ctx); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *realBroker) java(args ...string) *exec.Cmd {
	cmd := exec.Command(
		"java",
		append(
			[]string{"-Xms256m", "-Xmx768m", "-cp", b.classes, "-Dorg.slf4j.simpleLogger.showDateTime=true"},
			args...)...) //nolint:gosec // arguments of this test
	cmd.Dir, cmd.Stdout, cmd.Stderr = b.dir, b.log, b.log
	return cmd
}

// start starts the broker and returns once it answers.
func (b *realBroker) start(ctx context.Context) (err error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(b.addr))
	if err != nil {
		return err
	}
	defer client.Close()
	if b.proc, err = launch(b.java("kafka.Kafka", b.settings)); err != nil {
		return err
	}
	for {
		within, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := client.Ping(within)
		cancel()
		switch {
		case err == nil:
			return nil
		case b.proc.ended():
			return fmt.Errorf("the broker ended by itself: %w; its log is %s", b.proc.err, b.log.Name())
		case !pause(ctx, 100*time.Millisecond):
			return fmt.Errorf("the broker does not answer: %w; its log is %s", err, b.log.Name())
		}
	}
}

func (b *realBroker) String() string  { return "an Apache Kafka that is killed" }
func (b *realBroker) addrs() []string { return []string{b.addr} }

func (b *realBroker) close() {
	if !b.proc.ended() {
		b.proc.signal(syscall.SIGKILL)
		<-b.proc.done
	}
	b.log.Close()
}

// leave kills the broker and restarts it on its data within outage.
func (b *realBroker) leave(ctx context.Context, dice *rand.Rand, outage time.Duration) error {
	if b.proc.ended() {
		return fmt.Errorf("the broker ended by itself: %w; its log is %s", b.proc.err, b.log.Name())
	}
	down := time.Duration(dice.Int64N(int64(outage) + 1))
	b.w.log.write("the broker, pid %d: SIGKILL, started again in %s", b.proc.cmd.Process.Pid, down)
	b.proc.signal(syscall.SIGKILL)
	<-b.proc.done
	if !b.proc.killed() {
		return fmt.Errorf("the broker was not killed: %w", b.proc.err)
	}
	pause(ctx, down)
	if err := b.start(ctx); err != nil {
		return err
	}
	b.w.log.write("the broker is back, pid %d", b.proc.cmd.Process.Pid)
	return nil
}
