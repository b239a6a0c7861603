package delivery_test

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skald-saga/skald/internal/event/webhook"
	"github.com/skald-saga/skald/internal/saga/participantgate"
	"github.com/skald-saga/skald/internal/saga/registry"
)

// TestDeliveriesWaitAtTheGateOfTheirEndpoint checks that no attempt begins while a person holds the
// gate, and that the deliveries are sent afterwards.
func TestDeliveriesWaitAtTheGateOfTheirEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		known := participantgate.NewKnown(w.store.Participants)
		w.gate = participantgate.New(participantgate.Config{
			Store: w.store.Participants, Known: known, Node: "n", Now: time.Now,
			Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		})
		settings, err := registry.Settings{BaseURL: "http://h/hooks"}.Checked("hooks")
		if err != nil {
			t.Fatal(err)
		}
		p := registry.New(tenantID, "hooks", settings, "", time.Now())
		put := func(after registry.Participant, epoch int64) {
			t.Helper()
			if err := w.store.Participants.Put(t.Context(), after, epoch, registry.VerbPut); err != nil {
				t.Fatal(err)
			}
			if err := known.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		put(p, 0)
		held := p.Hold("ann", "Ann", "maintenance", time.Now())
		put(held, p.Epoch)
		waits, other := w.subscribe("http://h/hooks/a"), w.subscribe("http://h/other")
		w.happen(10)
		ctx, cancel := context.WithCancel(t.Context())
		rounds := make(chan struct{})
		go func() { defer close(rounds); w.gate.Run(ctx) }()
		stop := w.node()
		time.Sleep(30 * time.Second)
		for _, d := range w.deliveries(waits) {
			if d.Attempt != 0 || d.Status != webhook.Pending || d.LastAttemptAt != nil {
				t.Errorf("%s after %d attempts at a gate that a person holds", d.Status, d.Attempt)
			}
		}
		if n := len(w.deliveries(waits)); n != 10 || w.results["delivered"] != 10 {
			t.Errorf("%d wait; %v of the other webhook", n, w.results)
		}
		for _, d := range w.deliveries(other) {
			if d.Status != webhook.Delivered {
				t.Errorf("a delivery to another endpoint is %s", d.Status)
			}
		}
		after, _ := held.Release("ann", 2, time.Now())
		put(after, held.Epoch)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		sent := 0
		for _, d := range w.deliveries(waits) {
			sent += d.Attempt
		}
		if sent == 0 || sent > 6 { // two a second at first, then four
			t.Errorf("%d were sent within two seconds at two a second", sent)
		}
		time.Sleep(time.Minute)
		for _, d := range w.deliveries(waits) {
			if d.Status != webhook.Delivered || d.Attempt != 1 {
				t.Errorf("%s after %d attempts", d.Status, d.Attempt)
			}
		}
		stop()
		cancel()
		<-rounds
	})
}
