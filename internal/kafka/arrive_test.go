package kafka_test

import (
	"context"

	"github.com/skald-saga/skald/internal/dlq"
)

func (b *inbox) arrive(ctx context.Context, batch []dlq.Arrival) (n int, err error) {
	letters := make([]dlq.Letter, len(batch))
	for i := range batch {
		letters[i] = batch[i].Letter
	}
	pushed, err := b.letters.Push(ctx, letters)
	for _, p := range pushed {
		if p.Err != nil {
			err = p.Err
		} else if !p.Duplicate {
			n++
		}
	}
	return n, err
}
