// Topic creates, fills, reads, lists and deletes topics of the broker that make kafka runs, or of
// the one that SKALD_KAFKA_BROKERS names.
//
//	go run ./scripts/kafka/topic create NAME [PARTITIONS]
//	go run ./scripts/kafka/topic produce NAME [-key K] [-header NAME=VALUE]... < one record per line
//	go run ./scripts/kafka/topic consume NAME
//	go run ./scripts/kafka/topic list
//	go run ./scripts/kafka/topic delete NAME
package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var errUsage = errors.New(
	"usage: topic create NAME [PARTITIONS] | produce NAME [-key K] [-header NAME=VALUE]... | consume NAME | list | delete NAME",
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "topic:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	brokers := os.Getenv("SKALD_KAFKA_BROKERS")
	if brokers == "" {
		brokers = "127.0.0.1:19092"
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(brokers, ",")...))
	if err != nil {
		return err
	}
	defer client.Close()
	if len(args) == 1 && args[0] == "list" {
		return list(ctx, client)
	}
	if len(args) < 2 {
		return errUsage
	}
	name, rest := args[1], args[2:]
	switch args[0] {
	case "create":
		return create(ctx, client, name, rest)
	case "produce":
		return produce(ctx, client, name, rest)
	case "consume":
		return consume(ctx, brokers, name)
	case "delete":
		req := kmsg.NewPtrDeleteTopicsRequest()
		t := kmsg.NewDeleteTopicsRequestTopic()
		t.Topic = &name
		req.TopicNames, req.Topics, req.TimeoutMillis = []string{name}, append(req.Topics, t), 10_000
		res, err := req.RequestWith(ctx, client)
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(res.Topics[0].ErrorCode)
	}
	return errUsage
}

func create(ctx context.Context, client *kgo.Client, name string, rest []string) error {
	partitions := 1
	if len(rest) > 0 {
		var err error
		if partitions, err = strconv.Atoi(rest[0]); err != nil || partitions < 1 || partitions > 1000 {
			return errUsage
		}
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, int32(partitions), 1 //nolint:gosec // at most 1000
	req.Topics, req.TimeoutMillis = append(req.Topics, t), 10_000
	res, err := req.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(res.Topics[0].ErrorCode)
}

// headers are the headers given with -header.
type headers []kgo.RecordHeader

func (h *headers) String() string { return "" }

func (h *headers) Set(s string) error {
	name, value, ok := strings.Cut(s, "=")
	if !ok {
		return errUsage
	}
	*h = append(*h, kgo.RecordHeader{Key: name, Value: []byte(value)})
	return nil
}

func produce(ctx context.Context, client *kgo.Client, name string, rest []string) error {
	var with headers
	flags := flag.NewFlagSet("produce", flag.ContinueOnError)
	key := flags.String("key", "", "key of each record")
	flags.Var(&with, "header", "NAME=VALUE, repeatable")
	if err := flags.Parse(rest); err != nil {
		return err
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	var records []*kgo.Record
	for lines.Scan() {
		r := &kgo.Record{Topic: name, Value: []byte(lines.Text()), Headers: with}
		if *key != "" {
			r.Key = []byte(*key)
		}
		records = append(records, r)
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return err
	}
	fmt.Printf("%d records\n", len(records))
	return nil
}

// consume prints the records of a topic until none arrives for two seconds.
func consume(ctx context.Context, brokers, name string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(brokers, ",")...), kgo.ConsumeTopics(name))
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		wait, cancel := context.WithTimeout(ctx, 2*time.Second)
		fetches := client.PollFetches(wait)
		cancel()
		if fetches.Empty() {
			if err := fetches.Err0(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
				return err
			}
			return ctx.Err()
		}
		fetches.EachRecord(func(r *kgo.Record) {
			fmt.Printf("%d/%d %s %s", r.Partition, r.Offset, r.Key, r.Value)
			for _, h := range r.Headers {
				fmt.Printf(" %s=%q", h.Key, h.Value)
			}
			fmt.Println()
		})
	}
}

func list(ctx context.Context, client *kgo.Client) error {
	res, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, client)
	if err != nil {
		return err
	}
	for _, t := range res.Topics {
		if t.Topic != nil {
			fmt.Printf(
				"%s\t%d partitions\tid %s\n",
				*t.Topic,
				len(t.Partitions),
				base64.RawURLEncoding.EncodeToString(t.TopicID[:]),
			)
		}
	}
	return nil
}
