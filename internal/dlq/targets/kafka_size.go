package targets

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/kafka"
)

const limitWait = 5 * time.Second // time limit for the brokers to report a topic's limit

// tooLarge describes by how many bytes a record exceeds its topic's limit, and how its size is made
// up.
func (r *Kafka) tooLarge(ctx context.Context, rec *kgo.Record, refused error) string {
	var b strings.Builder
	size := kafka.RefusedSize(refused)
	if size == 0 {
		size = kafka.SizeOf(rec)
	}
	fmt.Fprintf(&b, "Kafka: %s: the record is too large", rec.Topic)
	if limit := r.limitOf(ctx, rec.Topic); limit > 0 && size > limit {
		fmt.Fprintf(&b, " by %d bytes: its size as sent is %d, and max.message.bytes is %d", size-limit, size, limit)
	} else {
		fmt.Fprintf(&b, ": its size as sent is %d bytes", size)
	}
	fmt.Fprintf(&b, ". Payload %d", len(rec.Value))
	if len(rec.Key) > 0 {
		fmt.Fprintf(&b, ", key %d", len(rec.Key))
	}
	headers := make([]dlq.Header, len(rec.Headers))
	for i, h := range rec.Headers {
		headers[i] = dlq.Header{Name: h.Key, Value: h.Value}
	}
	b.WriteString(", headers " + dlq.HeaderSizes(headers))
	b.WriteString(". Remove headers, shorten the payload or raise the topic's limit, and then retry the letter")
	return b.String()
}

// limitOf returns a topic's max.message.bytes, or 0 if the brokers do not report it; reading it
// requires DESCRIBE_CONFIGS.
func (r *Kafka) limitOf(ctx context.Context, topic string) int {
	ctx, cancel := context.WithTimeout(ctx, limitWait)
	defer cancel()
	const name = "max.message.bytes"
	req := kmsg.NewPtrDescribeConfigsRequest()
	of := kmsg.NewDescribeConfigsRequestResource()
	of.ResourceType, of.ResourceName, of.ConfigNames = kmsg.ConfigResourceTypeTopic, topic, []string{name}
	req.Resources = append(req.Resources, of)
	res, err := req.RequestWith(ctx, r.most)
	if err != nil {
		return 0
	}
	for i := range res.Resources {
		for _, c := range res.Resources[i].Configs {
			if c.Name == name && c.Value != nil {
				if n, err := strconv.Atoi(*c.Value); err == nil {
					return n
				}
			}
		}
	}
	return 0
}
