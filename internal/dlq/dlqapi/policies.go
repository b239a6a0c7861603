package dlqapi

import (
	"context"
	"net/http"
	"slices"
	"strconv"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/retry"
)

// defaultSubject is the audit trail's subject for a tenant's default policy.
const defaultSubject = "*"

// GetTopicPolicy returns the policy of a topic.
func (s *Handlers) GetTopicPolicy(ctx context.Context, in api.GetTopicPolicyRequestObject) (api.Response, error) {
	return s.policy(ctx, in.Topic, in.Params.IfNoneMatch)
}

// GetDefaultPolicy returns the policy of topics that have none.
func (s *Handlers) GetDefaultPolicy(ctx context.Context, in api.GetDefaultPolicyRequestObject) (api.Response, error) {
	return s.policy(ctx, "", in.Params.IfNoneMatch)
}

// PutTopicPolicy sets the policy of a topic.
func (s *Handlers) PutTopicPolicy(ctx context.Context, in api.PutTopicPolicyRequestObject) (api.Response, error) {
	return s.putPolicy(ctx, in.Topic, in.Params.IfMatch, in.Body)
}

// PutDefaultPolicy sets the policy of topics that have none.
func (s *Handlers) PutDefaultPolicy(ctx context.Context, in api.PutDefaultPolicyRequestObject) (api.Response, error) {
	return s.putPolicy(ctx, "", in.Params.IfMatch, in.Body)
}

// UpdateTopicPolicy changes members of the policy that applies to a topic.
func (s *Handlers) UpdateTopicPolicy(ctx context.Context, in api.UpdateTopicPolicyRequestObject) (api.Response, error) {
	return s.patchPolicy(ctx, in.Topic, in.Params.IfMatch, in.Body)
}

// UpdateDefaultPolicy changes members of the policy of topics that have none.
func (s *Handlers) UpdateDefaultPolicy(ctx context.Context,
	in api.UpdateDefaultPolicyRequestObject) (api.Response, error) {
	return s.patchPolicy(ctx, "", in.Params.IfMatch, in.Body)
}

func (s *Handlers) policy(ctx context.Context, topic string, ifNone *string) (httpkit.Answer, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	p, err := s.Overview.Policy(ctx, httpkit.RequestOf(ctx).Tenant.ID, topic)
	if err != nil {
		return httpkit.Answer{}, err
	}
	a, err := s.policyAnswer(ctx, &p, topic)
	if err != nil || p.Version == 0 {
		// The policy that applies instead may change even though its version stays 0.
		return a, err
	}
	return a.Unchanged(ifNone)
}

func (s *Handlers) putPolicy(ctx context.Context, topic string, match *string,
	b *api.DeadLetterPolicyInput) (httpkit.Answer, error) {
	return s.setPolicy(ctx, topic, match, httpkit.Text(b.Reason), func(dlq.Policy) dlq.Policy { return policyOf(b) })
}

func (s *Handlers) patchPolicy(ctx context.Context, topic string, match *string,
	b *api.DeadLetterPolicyPatch) (httpkit.Answer, error) {
	return s.setPolicy(ctx, topic, match, httpkit.Text(b.Reason),
		func(there dlq.Policy) dlq.Policy { return patchedPolicy(there, b) })
}

// setPolicy applies decide to the policy that currently applies to a topic, and stores the result
// as the topic's policy.
func (s *Handlers) setPolicy(ctx context.Context, topic string, match *string, reason string,
	decide func(there dlq.Policy) dlq.Policy) (httpkit.Answer, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	req := httpkit.RequestOf(ctx)
	for range httpkit.Reloads(ctx) {
		there, err := s.Overview.Policy(ctx, req.Tenant.ID, topic)
		if err != nil {
			return httpkit.Answer{}, err
		}
		switch fits, err := httpkit.IfMatch(match, there.Version); {
		case err != nil:
			return httpkit.Answer{}, err
		case !fits:
			return httpkit.Answer{}, httpkit.Stale(dlq.CodeStale, "policy", there.Version)
		}
		p := decide(there)
		p.TenantID, p.Topic, p.UpdatedBy = req.Tenant.ID, topic, req.Principal
		if err := dlq.CheckPolicy(&p); err != nil {
			return httpkit.Answer{}, err
		}
		// Unchanged targets are not checked, so that a topic can be held by changing one field even
		// if its targets are no longer allowed.
		if err := s.mayBeAllowed(&p); err != nil && !slices.Equal(p.AllowedTargets, there.AllowedTargets) {
			return httpkit.Answer{}, err
		}
		if httpkit.DryRun(ctx) {
			a, err := s.policyAnswer(ctx, &p, topic)
			if err != nil {
				return a, err
			}
			body := a.Body.(api.DeadLetterPolicy)
			body.Changes, err = httpkit.Differences(toAPIPolicy(&there, topic), toAPIPolicy(&p, topic))
			a.Body = body
			return a, err
		}
		p.Version, p.UpdatedAt = there.Version+1, s.Now()
		subject := topic
		if subject == "" {
			subject = defaultSubject
		}
		by := s.Did(ctx, p.UpdatedAt, operator.TopicPolicy, subject, httpkit.VerbUpdate, reason,
			map[string]any{"before": toAPIPolicy(&there, topic), "policy": toAPIPolicy(&p, topic)})
		switch err := s.Overview.PutPolicy(ctx, p, by); {
		case err == nil:
			return s.policyAnswer(ctx, &p, topic)
		case !fault.IsCode(err, dlq.CodeStale):
			return httpkit.Answer{}, err
		}
	}
	return httpkit.Answer{}, httpkit.KeepsChanging("policy")
}

// policyAnswer responds with a policy and whether its topic is known.
func (s *Handlers) policyAnswer(ctx context.Context, p *dlq.Policy, topic string) (httpkit.Answer, error) {
	out := toAPIPolicy(p, topic)
	if topic != "" {
		known, _, err := s.Overview.KnownTopic(ctx, p.TenantID, topic)
		if err != nil {
			return httpkit.Answer{}, err
		}
		out.Known = &known
	}
	return httpkit.Answer{Status: http.StatusOK, Body: out, ETag: httpkit.ETagOf(p.Version)}, nil
}

// mayBeAllowed returns nil if letters may be sent to all targets in a policy, and an Invalid fault
// with dlq.CodeTarget otherwise.
func (s *Handlers) mayBeAllowed(p *dlq.Policy) error {
	for i, target := range p.AllowedTargets {
		if s.Routes.Forbids(target) {
			return notAllowed("/allowed_targets/"+strconv.Itoa(i), dlq.ReadAsDeadLetters)
		}
	}
	return nil
}

func policyOf(b *api.DeadLetterPolicyInput) dlq.Policy {
	out := dlq.Policy{
		MaxRetries: int(b.MaxRetries), AutoRetry: b.AutoRetry, Ordered: b.Ordered, RetentionDays: int(b.RetentionDays),
		ArchiveDays:    int(b.ArchiveDays),
		MaxGenerations: int(b.MaxGenerations), Redact: b.Redact, AllowedTargets: b.AllowedTargets,
		KeepHeaders: b.KeepHeaders,
		HoldAll:     b.HoldAll != nil && *b.HoldAll, RetryPermanent: b.RetryPermanent != nil && *b.RetryPermanent,
		Backoff: retry.Policy{
			InitialIntervalMS: b.Backoff.InitialIntervalMS, MaxIntervalMS: b.Backoff.MaxIntervalMS,
			Multiplier: b.Backoff.Multiplier, Jitter: &b.Backoff.Jitter,
		},
	}
	if a := b.Alert; a != nil {
		number := func(n *int64) int64 {
			if n == nil {
				return 0
			}
			return *n
		}
		out.Alert = dlq.Alert{Count: number(a.Count), Rate: number(a.Rate), AgeMS: number(a.AgeMS),
			NewGroup: a.NewGroup != nil && *a.NewGroup}
	}
	return out
}

// patchedPolicy returns a policy with the members of a patch applied.
func patchedPolicy(p dlq.Policy, b *api.DeadLetterPolicyPatch) dlq.Policy {
	number := func(to *int, from *int32) {
		if from != nil {
			*to = int(*from)
		}
	}
	number(&p.MaxRetries, b.MaxRetries)
	number(&p.RetentionDays, b.RetentionDays)
	number(&p.ArchiveDays, b.ArchiveDays)
	number(&p.MaxGenerations, b.MaxGenerations)
	replace(&p.AutoRetry, b.AutoRetry)
	replace(&p.HoldAll, b.HoldAll)
	replace(&p.RetryPermanent, b.RetryPermanent)
	replace(&p.Ordered, b.Ordered)
	if in := b.Backoff; in != nil {
		replace(&p.Backoff.InitialIntervalMS, in.InitialIntervalMS)
		replace(&p.Backoff.MaxIntervalMS, in.MaxIntervalMS)
		replace(&p.Backoff.Multiplier, in.Multiplier)
		if in.Jitter != nil {
			p.Backoff.Jitter = in.Jitter
		}
	}
	if in := b.Alert; in != nil {
		replace(&p.Alert.Count, in.Count)
		replace(&p.Alert.Rate, in.Rate)
		replace(&p.Alert.AgeMS, in.AgeMS)
		replace(&p.Alert.NewGroup, in.NewGroup)
	}
	if b.Redact != nil {
		p.Redact = b.Redact
	}
	if b.AllowedTargets != nil {
		p.AllowedTargets = b.AllowedTargets
	}
	if b.KeepHeaders != nil {
		p.KeepHeaders = b.KeepHeaders
	}
	return p
}

// replace sets *to if from is not nil.
func replace[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

func toAPIPolicy(p *dlq.Policy, topic string) api.DeadLetterPolicy {
	out := api.DeadLetterPolicy{
		//nolint:gosec // CheckPolicy limits the value
		Topic: httpkit.UnlessEmpty(topic), MaxRetries: int32(p.MaxRetries), AutoRetry: p.AutoRetry, Ordered: p.Ordered,
		RetentionDays: int32(p.RetentionDays),
		//nolint:gosec // CheckPolicy limits these as well
		ArchiveDays: int32(p.ArchiveDays), MaxGenerations: int32(p.MaxGenerations), Redact: p.Redact,
		AllowedTargets: p.AllowedTargets, KeepHeaders: p.KeepHeaders, RetryPermanent: p.RetryPermanent,
		Backoff: api.DeadLetterBackoff{InitialIntervalMS: p.Backoff.InitialIntervalMS, MaxIntervalMS: p.Backoff.MaxIntervalMS,
			Multiplier: p.Backoff.Multiplier},
		Alert: api.DeadLetterAlert{Count: &p.Alert.Count, Rate: &p.Alert.Rate, AgeMS: &p.Alert.AgeMS,
			NewGroup: &p.Alert.NewGroup},
		Version: p.Version, Inherited: p.Version == 0, UpdatedBy: httpkit.UnlessEmpty(p.UpdatedBy),
	}
	out.PolicyUnreadable = httpkit.UnlessFalse(p.Unreadable)
	if topic == "" {
		out.HoldAll = &p.HoldAll
	}
	if p.Backoff.Jitter != nil {
		out.Backoff.Jitter = *p.Backoff.Jitter
	}
	if out.Redact == nil {
		out.Redact = []string{}
	}
	if out.AllowedTargets == nil {
		out.AllowedTargets = []string{}
	}
	if out.KeepHeaders == nil {
		out.KeepHeaders = []string{}
	}
	if !p.UpdatedAt.IsZero() {
		out.UpdatedAt = &p.UpdatedAt
	}
	return out
}
