package kafka

import (
	"maps"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A free worker gets the next batch, but never one from a partition that another worker is storing.
// The records of each partition arrive in order.
func TestWorkIsDividedByPartitionAndInOrder(t *testing.T) {
	t.Parallel()
	var records []read
	for partition, n := range []int{1, 250, 40, 100} {
		for i := range n {
			records = append(
				records,
				read{Record: &kgo.Record{Topic: "x.dlq", Partition: int32(partition), Offset: int64(i), Value: make([]byte, 10)}},
			)
		}
	}
	large := read{Record: &kgo.Record{Topic: "y.dlq", Value: make([]byte, 10_000)}}
	records = append(records, large)
	todo := newWork(records, 100, 5000)
	next, seen := map[topicPartition]int64{}, 0
	taken := func() (of []*line) {
		t.Helper()
		batch, of := todo.take()
		size := 0
		for _, r := range batch {
			at := topicPartition{r.Topic, r.Partition}
			if r.Offset != next[at] {
				t.Errorf("partition %d: offset %d, want %d", r.Partition, r.Offset, next[at])
			}
			next[at]++
			seen++
			size += SizeOf(r.Record)
		}
		if len(batch) > 100 || size > 5000 && len(batch) > 1 {
			t.Errorf("a batch has %d records of %d bytes", len(batch), size)
		}
		return of
	}
	first, second, third := taken(), taken(), taken()
	want := map[topicPartition]int64{{"x.dlq", 1}: 100, {"x.dlq", 2}: 40, {"x.dlq", 3}: 100, {"x.dlq", 0}: 1}
	if !maps.Equal(want, next) {
		t.Errorf("three have taken %v, want %v", next, want)
	}
	for _, of := range [][]*line{third, second, first} {
		todo.giveBack(of)
	}
	for {
		of := taken()
		if of == nil {
			break
		}
		todo.giveBack(of)
	}
	if seen != len(records) {
		t.Errorf("%d records were taken, want %d", seen, len(records))
	}
	// After the end no worker waits.
	ended := newWork(records[:1], 1, 1)
	_, of := ended.take()
	waited := make(chan bool)
	go func() { batch, _ := ended.take(); waited <- batch == nil }()
	ended.end()
	if !<-waited {
		t.Error("after the end there was work")
	}
	ended.giveBack(of)
}
