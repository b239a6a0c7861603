package measure

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/db"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/postgres"
)

// LettersConfig describes how many dead letters to generate and where.
type LettersConfig struct {
	// DatabaseURL names the database; it is migrated first and keeps its content. Required.
	DatabaseURL string
	Letters     int
	// Tenant gets nine of ten letters. Zero: the default tenant of a server.
	Tenant uuid.UUID
	// Over is the period in which they arrived, up to now. Zero: 90 days.
	Over time.Duration
	// Out receives the progress. Nil means that it is not printed.
	Out io.Writer
}

// lettersPerPush is the number of letters per transaction: a full batch.
const lettersPerPush = dlq.MaxPushed

// GenerateLetters fills a database with dead letters as the store itself writes them, and
// updates its statistics. Existing data stays; generating twice creates everything twice. All
// of it is durable on return, and after an error the complete batches are.
func GenerateLetters(ctx context.Context, cfg LettersConfig) error {
	if cfg.Letters < 1 {
		return errors.New("letters must be at least 1")
	}
	if cfg.Tenant == uuid.Nil {
		cfg.Tenant = defaultTenant
	}
	if cfg.Over == 0 {
		cfg.Over = 90 * 24 * time.Hour
	}
	if cfg.Out == nil {
		cfg.Out = io.Discard
	}
	if err := db.Migrate(ctx, cfg.DatabaseURL); err != nil {
		return fmt.Errorf("migrate the database: %w", err)
	}
	store, err := postgres.Open(ctx, postgres.Config{DSN: cfg.DatabaseURL, Application: "skald-bench"})
	if err != nil {
		return err
	}
	defer store.Close()
	letters := dlqdb.NewLetters(store, dlq.DefaultPolicy)
	if err := keepGenerated(ctx, letters, cfg); err != nil {
		return err
	}
	if err := pushGenerated(ctx, letters, cfg); err != nil {
		return err
	}
	pool, err := sql.Open("postgres", cfg.DatabaseURL)
	if err != nil {
		return fmt.Errorf("open the database: %w", err)
	}
	defer pool.Close()
	return settle(ctx, pool, cfg.Out,
		// The lease of a retry does not expire while lists are read.
		`UPDATE dlq.dlq_messages SET retry_lease_until = now() + interval '365 days' WHERE status = 'RETRYING'`,
		`VACUUM (ANALYZE) dlq.dlq_messages, dlq.dlq_groups, dlq.dlq_arrivals`)
}

// keepGenerated gives tenants a policy by which no server archives their letters while it is
// measured; an existing policy stays.
func keepGenerated(ctx context.Context, letters *dlqdb.Letters, cfg LettersConfig) error {
	for _, tenant := range append([]string{cfg.Tenant.String()}, otherTenants...) {
		p := dlq.DefaultPolicy
		p.TenantID, p.Version, p.RetentionDays, p.UpdatedAt = uuid.MustParse(tenant), 1, 3650, time.Now()
		by := operator.By{Reason: "generated letters stay where they are"}
		err := letters.PutPolicy(
			ctx,
			p,
			by.Did(uuid.Must(uuid.NewV7()), p.TenantID, p.UpdatedAt, operator.TopicPolicy, "", "put", nil),
		)
		if err != nil && fault.KindOf(err) != fault.Precondition {
			return err
		}
	}
	return nil
}

// pushGenerated stores the letters in batches on two connections, oldest first.
func pushGenerated(ctx context.Context, letters *dlqdb.Letters, cfg LettersConfig) error {
	g := newLetterGenerator(cfg, time.Now().UTC().Truncate(time.Second))
	var next, made atomic.Int64
	begun := time.Now()
	work := func(ctx context.Context) error {
		for ctx.Err() == nil {
			first := int(next.Add(lettersPerPush) - lettersPerPush)
			if first >= cfg.Letters {
				return nil
			}
			batch := make([]dlq.Letter, min(lettersPerPush, cfg.Letters-first))
			for i := range batch {
				batch[i] = g.letter(first + i)
			}
			pushed, err := letters.Push(ctx, batch)
			if err != nil {
				return err
			}
			for _, p := range pushed {
				if p.Err != nil || p.Duplicate {
					return fmt.Errorf("generated letter %s: duplicate %v: %w", p.Letter.ID, p.Duplicate, p.Err)
				}
			}
			n := made.Add(int64(len(batch)))
			if n/100_000 != (n-int64(len(batch)))/100_000 || n == int64(cfg.Letters) {
				fmt.Fprintf(cfg.Out, "%d of %d letters after %s\n", n, cfg.Letters, time.Since(begun).Round(time.Second))
			}
		}
		return ctx.Err()
	}
	return twice(ctx, work)
}

// The distribution of generated letters.
const (
	generatedTopics = 40
	generatedGroups = 300
)

// letterGenerator generates letters. A letter depends only on its number; only its times depend
// on the clock.
type letterGenerator struct {
	cfg    LettersConfig
	until  time.Time
	groups []generatedGroup
}

// generatedGroup is one kind of error. It occurs all the time, or as an incident of a few days:
// then all its letters are close together.
type generatedGroup struct {
	topic, consumers, kind, message string
	class                           dlq.ErrorClass
	from, to                        float64 // fractions of the whole period
}

func newLetterGenerator(cfg LettersConfig, until time.Time) *letterGenerator {
	g := &letterGenerator{cfg: cfg, until: until}
	r := rand.New(rand.NewPCG(3, 0)) //nolint:gosec // to be repeatable
	families := []string{"orders", "payments", "shipping", "stock", "mail", "billing", "search", "audit"}
	verbs := []string{"created", "changed", "cancelled", "confirmed", "expired"}
	causes := []string{
		"connection refused by 10.0.%d.7:5432", "timeout after %d ms waiting for inventory", "customer %d does not exist",
		"cannot deserialize field amount at offset %d", "HTTP 503 from carrier, attempt %d", "duplicate key for invoice %d", "quota of tenant %d exceeded",
	}
	for i := range generatedGroups {
		// Topics and groups are of unequal size: the first ones have most letters.
		topic := int(generatedTopics * r.Float64() * r.Float64())
		group := generatedGroup{
			topic:     families[topic%len(families)] + "." + verbs[topic/len(families)],
			consumers: fmt.Sprintf("%s-worker-%d", families[topic%len(families)], i%3),
			kind:      fmt.Sprintf("com.example.%s.Failure%02d", families[topic%len(families)], i%60),
			message:   causes[i%len(causes)] + fmt.Sprintf(" in stage s%c%c", 'a'+rune(i%26), 'a'+rune(i/26)),
			class:     dlq.Classes[i%len(dlq.Classes)], to: 1,
		}
		if i%2 == 1 {
			group.from = r.Float64() * 0.96
			group.to = group.from + 0.04
		}
		g.groups = append(g.groups, group)
	}
	return g
}

// group chooses one that occurs at a moment, 0 to 1 of the whole period.
func (g *letterGenerator) group(r *rand.Rand, moment float64) *generatedGroup {
	for {
		u := r.Float64()
		if c := &g.groups[int(generatedGroups*u*u)]; c.from <= moment && moment <= c.to {
			return c
		}
	}
}

func (g *letterGenerator) letter(i int) dlq.Letter {
	r := rand.New(rand.NewPCG(uint64(i), 7)) //nolint:gosec // to be repeatable
	moment := (float64(i) + r.Float64()) / float64(g.cfg.Letters)
	at := g.until.Add(-time.Duration((1 - moment) * float64(g.cfg.Over))).Truncate(time.Microsecond)
	group := g.group(r, moment)
	l := dlq.Letter{
		TenantID:      g.cfg.Tenant,
		Source:        dlq.FromKafka,
		OriginalTopic: group.topic,
		ConsumerGroup: group.consumers,
		MaxRetries:    6,
		Failure: dlq.Failure{
			Message: fmt.Sprintf(group.message, r.IntN(1000)), Type: group.kind, Class: group.class,
			Stack: fmt.Sprintf(
				"at com.example.Handler.handle(Handler.java:%d)\n\tat com.example.Worker.run(Worker.java:40)",
				r.IntN(400),
			),
		},
		Target: dlq.Target{Kind: dlq.ToKafka},
	}
	if r.IntN(10) == 0 {
		l.TenantID = uuid.MustParse(otherTenants[r.IntN(len(otherTenants))])
	}
	// A policy without automatic retries, so that nothing is retried during measurements.
	p := dlq.DefaultPolicy
	p.AutoRetry = false
	g.from(&l, r, i)
	g.content(&l, r, i)
	g.marks(&l, r, i)
	l = dlq.New(l, generatedID(at, r), &p, dlq.Moment{Now: at})
	g.fate(&l, r, moment, at)
	return l
}

// generatedID is a UUID of version 7 for a time.
func generatedID(at time.Time, r *rand.Rand) (id uuid.UUID) {
	ms := at.UnixMilli()
	for k := range 6 {
		id[k] = byte(ms >> (40 - 8*k)) //nolint:gosec // byte by byte
	}
	for k := 6; k < 16; k++ {
		id[k] = byte(r.Uint32()) //nolint:gosec // any byte
	}
	id[6], id[8] = id[6]&0x0f|0x70, id[8]&0x3f|0x80
	return id
}

// from sets the source of a letter.
func (g *letterGenerator) from(l *dlq.Letter, r *rand.Rand, i int) {
	switch u := r.Float64(); {
	case u < 0.88:
		l.Arrived = &dlq.Position{
			Topic:     l.OriginalTopic + ".dlq",
			Partition: int32(i % 12),
			Offset:    g.until.Unix()<<24 + int64(i),
		} //nolint:gosec // of 12
		l.Origin = dlq.Origin{
			Partition: new(int32(i % 12)),
			Offset:    new(int64(i) * 7),
		} //nolint:gosec // of 12
	case u < 0.97:
		l.Source = dlq.FromREST
	case u < 0.99:
		l.Source, l.Link, l.Target = dlq.FromWebhook, dlq.Link{
			WebhookID:  generatedID(g.until, r),
			DeliveryID: generatedID(g.until, r),
		}, dlq.Target{
			Kind: dlq.ToWebhook,
		}
	case u < 0.997:
		l.Source, l.Link, l.Target = dlq.FromJob, dlq.Link{JobRunID: generatedID(g.until, r)}, dlq.Target{Kind: dlq.ToJobRun}
	default:
		l.Source, l.Target = dlq.FromSaga, dlq.Target{Kind: dlq.ToSaga}
		l.Link = dlq.Link{SagaID: generatedID(g.until, r), StepName: "charge-payment", Action: "COMPENSATE"}
	}
	if r.Float64() < 0.7 {
		l.CorrelationID = fmt.Sprintf("corr-%d", i/2)
	}
	if r.Float64() < 0.9 {
		l.TraceID = fmt.Sprintf("%032x", uint64(i)*0x9e3779b97f4a7c15)
	}
}

// content makes half a kilobyte, mostly JSON.
func (g *letterGenerator) content(l *dlq.Letter, r *rand.Rand, i int) {
	customer, country := r.IntN(50_000), []string{"se", "jp", "de", "us", "fr", "is"}[r.IntN(6)]
	l.Content.Key = fmt.Appendf(nil, "customer-%d", customer)
	l.Content.Headers = []dlq.Header{
		{Name: "content-type", Value: []byte("application/json")}, {Name: "x-country", Value: []byte(country)},
		{
			Name:  "x-shop",
			Value: fmt.Appendf(nil, "shop-%d", r.IntN(2000)),
		}, {Name: "traceparent", Value: fmt.Appendf(nil, "00-%s-00", l.TraceID)},
	}
	switch u := r.Float64(); {
	case u < 0.1:
		l.Content.Payload = make([]byte, 400)
		for k := range l.Content.Payload {
			l.Content.Payload[k] = byte(r.Uint32()) //nolint:gosec // any byte
		}
	case u < 0.12: // a tombstone
	default:
		l.Content.Payload = fmt.Appendf(
			nil,
			`{"order_id": "o-%d", "customer": {"id": %d, "country": %q}, "amount": %d.50, "currency": "EUR", `+
				`"lines": [{"sku": "A-%d", "quantity": %d}, {"sku": "B-%d", "quantity": 1}], "note": "an order as it was when it could not be taken"}`,
			i,
			customer,
			country,
			r.IntN(500),
			r.IntN(9000),
			1+r.IntN(5),
			r.IntN(9000),
		)
	}
}

// marks sets what operators add.
func (g *letterGenerator) marks(l *dlq.Letter, r *rand.Rand, i int) {
	if r.Float64() < 0.03 {
		l.Labels = append(l.Labels, "vip")
	}
	if r.Float64() < 0.01 {
		l.Labels = append(l.Labels, fmt.Sprintf("ticket-%d", i/1000))
	}
	if r.Float64() < 0.02 {
		l.Assignee = []string{"ada", "bo", "cy", "di", "eve"}[r.IntN(5)]
	}
	if r.Float64() < 0.02 {
		l.Generation, l.RootID, l.ParentID = 1+int(3*r.Float64()*r.Float64()), generatedID(g.until, r),
			generatedID(g.until, r)
	}
	if r.Float64() < 0.005 {
		l.DedupeKey = fmt.Sprintf("generated-%d-%d", g.until.Unix(), i)
	}
}

// fate sets the state of a letter: the older the letter, the more likely it has ended.
func (g *letterGenerator) fate(l *dlq.Letter, r *rand.Rand, moment float64, at time.Time) {
	if l.Status != dlq.Pending {
		return
	}
	later := at.Add(time.Duration(r.Float64() * (1 - moment) * float64(g.cfg.Over) * 0.1)).Truncate(time.Microsecond)
	end := func(s dlq.Status, why dlq.Resolution, retries int) {
		l.Status, l.Resolution, l.TerminalAt, l.RetryCount, l.UpdatedAt = s, why, &later, retries, later
		if retries > 0 || why == dlq.Redriven || why == dlq.Confirmed || why == dlq.Bounced {
			l.LastRetryAt = &later
		}
	}
	retries := int(5 * r.Float64() * r.Float64())
	switch u := r.Float64(); {
	case u < 0.08+0.2*moment*moment:
		l.RetryCount = retries
		if retries > 0 {
			l.LastRetryAt, l.UpdatedAt = &later, later
		}
		if r.IntN(1000) == 0 {
			l.Status, l.LastRetryAt = dlq.Retrying, &later // the schema sets the lease
		}
	case u < 0.34:
		end(dlq.Dead, dlq.Exhausted, 6)
	case u < 0.38:
		end(dlq.Dead, dlq.Discarded, retries)
	case u < 0.383:
		end(dlq.Dead, dlq.Poison, retries)
	case u < 0.40:
		end(dlq.Resolved, dlq.Bounced, retries)
	case u < 0.45:
		end(dlq.Resolved, dlq.Manual, retries)
	case u < 0.7:
		end(dlq.Resolved, dlq.Confirmed, retries)
	default:
		end(dlq.Resolved, dlq.Redriven, retries)
	}
	if l.Status == dlq.Resolved && r.IntN(5) == 0 {
		l.RedriveID = uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "redrive %d", int(moment*50)))
	}
}
