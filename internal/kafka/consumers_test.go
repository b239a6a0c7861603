package kafka_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/kafka"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

var updateRecords = flag.Bool("update-records", false, "rewrite the records of internal/dlq/testdata/consumers")

// failedRecord is a record that a real tool wrote to a dead-letter topic, together with the record
// that failed. The tests of package dlq read them.
type failedRecord struct {
	Original savedRecord `json:"original"`
	Dead     savedRecord `json:"dead"`
}

type savedRecord struct {
	Topic     string        `json:"topic"`
	Partition int32         `json:"partition"`
	Offset    int64         `json:"offset"`
	Timestamp time.Time     `json:"timestamp"`
	Key       []byte        `json:"key"`
	Value     []byte        `json:"value"`
	Headers   []savedHeader `json:"headers"`
}

type savedHeader struct {
	Name  string `json:"name"`
	Value []byte `json:"value"` // null: none
}

func saved(r *kgo.Record) savedRecord {
	s := savedRecord{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset,
		Timestamp: r.Timestamp.UTC(), Key: r.Key, Value: r.Value}
	for _, h := range r.Headers {
		s.Headers = append(s.Headers, savedHeader{h.Key, h.Value})
	}
	return s
}

// givesUp is a real consumer that moves records to a dead-letter topic after they fail.
type givesUp struct {
	dead  func(topic, group string) string // the name of its dead-letter topic
	makes bool                             // whether it creates that topic
	start func(p *programs, brokers, topic, group string) *exec.Cmd
	value []byte
	// mended is sent instead of a value that cannot be consumed; nil means that the value is sent.
	mended []byte
	shown  string      // how the program prints what it consumed; "": unchanged
	want   dlq.Failure // Stack is not compared, Message must be contained
	group  string      // "": the consumer group
}

// programs are the jars and classes that scripts/kafka.sh fetches and compiles.
type programs struct {
	t   *testing.T
	dir string
}

func spring(main string) func(*programs, string, string, string) *exec.Cmd {
	return func(p *programs, brokers, topic, group string) *exec.Cmd {
		path := filepath.Join(p.dir, "classes") + ":" + filepath.Join(p.dir, "spring") + "/*"
		return exec.Command("java", "-Xmx256m", "-cp", path, main, brokers, topic, group)
	}
}

// connect is a worker of Kafka Connect with a sink that writes lines to its output.
func connect(p *programs, brokers, topic, group string) *exec.Cmd {
	dir := p.t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			p.t.Fatal(err)
		}
		return path
	}
	worker := file("worker.properties", fmt.Sprintf(`
bootstrap.servers=%s
listeners=http://127.0.0.1:0
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
value.converter.schemas.enable=false
offset.storage.file.filename=%s/offsets
offset.flush.interval.ms=500
plugin.discovery=only_scan
`, brokers, dir))
	sink := file("sink.properties", fmt.Sprintf(`
name=%s
connector.class=org.apache.kafka.connect.file.FileStreamSinkConnector
tasks.max=1
topics=%s
errors.tolerance=all
errors.deadletterqueue.topic.name=%s-dlq
errors.deadletterqueue.topic.replication.factor=1
errors.deadletterqueue.context.headers.enable=true
`, group, topic, topic))
	return exec.Command("java", "-Xmx256m", "-Dorg.slf4j.simpleLogger.logFile=System.err", "-cp", filepath.Join(p.dir, "connect")+"/*",
		"org.apache.kafka.connect.cli.ConnectStandalone", worker, sink)
}

// output collects what a program prints.
type output struct {
	mu    sync.Mutex
	lines []string
}

func (o *output) has(part string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.ContainsFunc(o.lines, func(l string) bool { return strings.Contains(l, part) })
}

// run starts a program, which ends with the test.
func (p *programs) run(cmd *exec.Cmd) *output {
	p.t.Helper()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	out, done := new(output), make(chan struct{})
	go func() {
		defer close(done)
		for in := bufio.NewScanner(stdout); in.Scan(); {
			out.mu.Lock()
			out.lines = append(out.lines, in.Text())
			out.mu.Unlock()
		}
	}()
	p.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-done
		_ = cmd.Wait()
		if p.t.Failed() {
			p.t.Logf("%v\n%s\n%s", cmd.Args, strings.Join(out.lines, "\n"), stderr.String())
		}
	})
	return out
}

// Records of real consumers become letters with place, error, class and group, and their retries
// are consumed. This uses the real programs and a real broker.
func TestWhatRealConsumersGiveUpIsUnderstoodAndConsumedAgain(t *testing.T) {
	dir := os.Getenv("TEST_KAFKA_CONSUMERS")
	if dir == "" {
		t.Skip("make test-kafka fetches the consumers; without them the records of testdata/consumers are tried")
	}
	timeout := dlq.Failure{Type: "java.net.SocketTimeoutException", Class: dlq.Transient, Message: "order refused"}
	for name, tt := range map[string]givesUp{
		"spring-recoverer": {dead: func(topic, _ string) string { return topic + "-dlt" }, start: spring("Recoverer"),
			value: []byte(`{"order":1}`), want: timeout},
		"spring-retryable": {dead: func(topic, _ string) string { return topic + "-dlt" }, makes: true,
			start: spring("Retryable"),
			value: []byte(`{"order":2}`), want: timeout},
		"spring-cloud-stream": {dead: func(topic, group string) string { return "error." + topic + "." + group }, makes: true,
			start: spring("Streams"), value: []byte(`{"order":3}`),
			want: dlq.Failure{Type: timeout.Type, Class: timeout.Class, Message: "; Read timed out"}},
		"spring-deserializer": {dead: func(topic, _ string) string { return topic + "-dlt" }, start: spring("Deserializer"),
			value: []byte(`no JSON`), mended: []byte(`{"order":5}`), shown: "{order=5}",
			want: dlq.Failure{Type: "org.springframework.kafka.support.serializer.DeserializationException", Class: dlq.Permanent,
				Message: "failed to deserialize"}},
		"connect": {dead: func(topic, _ string) string { return topic + "-dlq" }, start: connect,
			value: []byte(`no JSON`), mended: []byte(`{"order":4}`), shown: "{order=4}", group: "connect-",
			want: dlq.Failure{Type: "org.apache.kafka.connect.errors.DataException", Class: dlq.Permanent, Message: "Converting byte[]"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := &programs{t: t, dir: dir}
			c, b := newCluster(t), newInbox(t, testdb.DSN(t))
			topic, group := c.create("orders", 1), c.mark+"-shop"
			dead := tt.dead(topic, group)
			if !tt.makes {
				c.create(strings.TrimPrefix(dead, c.mark+"-"), 1)
			}
			sent := c.produce(&kgo.Record{Topic: topic, Key: []byte("k"), Value: tt.value,
				Timestamp: time.Now().Add(-time.Hour).Truncate(time.Millisecond),
				Headers: []kgo.RecordHeader{{Key: "traceparent", Value: []byte("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")},
					{Key: "n", Value: []byte{0, 0xff}}, {Key: "n", Value: []byte("2")}}})[0]
			out := p.run(tt.start(p, strings.Join(c.addrs, ","), topic, group))
			b.ingest(c, func(cfg *kafka.IngestConfig) { cfg.Topics = c.mark + `.*(-dl[qt]|[.].*)$` })
			b.has(1)
			given := c.consume(dead, 1)[0]
			if *updateRecords {
				save(t, name, failedRecord{saved(sent), saved(given)})
			}
			l := b.letter(given)
			if l.OriginalTopic != topic || l.Origin.Partition == nil ||
				*l.Origin.Partition != sent.Partition || l.Origin.Offset == nil ||
				*l.Origin.Offset != sent.Offset || l.Origin.Timestamp == nil || !l.Origin.Timestamp.Equal(sent.Timestamp) {
				t.Errorf("it is of %s, %+v; want %s/%d/%d of %v", l.OriginalTopic, l.Origin, topic, sent.Partition, sent.Offset, sent.Timestamp)
			}
			wantGroup := tt.group + group
			if l.Failure.Type != tt.want.Type || l.Failure.Class != tt.want.Class ||
				!strings.Contains(l.Failure.Message, tt.want.Message) ||
				l.ConsumerGroup != wantGroup {
				t.Errorf("%s %s of %s: %q; want %+v of %s", l.Failure.Class, l.Failure.Type, l.ConsumerGroup, l.Failure.Message, tt.want, wantGroup)
			}
			if held := l.NextRetryAt == nil; held != (tt.want.Class == dlq.Permanent) {
				t.Errorf("a %s letter is retried at %v", l.Failure.Class, l.NextRetryAt)
			}
			value := tt.value
			if tt.mended != nil {
				value = tt.mended
			}
			b.retryWith(c.redriver(), l.ID, tt.mended)
			again := c.consume(topic, 2)[1]
			var headers []kgo.RecordHeader
			for _, h := range again.Headers {
				if !dlq.OwnHeader(h.Key) {
					headers = append(headers, h)
				}
			}
			if diff := cmp.Diff(sent.Headers, headers); diff != "" || !bytes.Equal(again.Value, value) {
				t.Errorf("sent again with %q, and headers (-want +got):\n%s", again.Value, diff)
			}
			shown := tt.shown
			if shown == "" {
				shown = "CONSUMED " + string(value)
			}
			patience.Until(t, "the record is consumed", func() bool { return out.has(shown) })
			b.has(1)
		})
	}
}

func save(t *testing.T, name string, r failedRecord) {
	t.Helper()
	raw, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join("..", "dlq", "testdata", "consumers", name+".json"), append(raw, '\n'), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
