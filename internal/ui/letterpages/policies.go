package letterpages

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// setting is a member of a policy.
type setting struct {
	Name, Label, Value, Kind string // as in the fields of a form
}

// Words formats the value for people.
func (s setting) Words() string {
	if n, err := strconv.ParseInt(s.Value, 10, 64); err == nil && strings.HasSuffix(s.Name, "_ms") {
		return web.Milliseconds(n)
	}
	return asWord(s.Value)
}

// settingsOf returns the members of a policy in the order in which people look for them.
func settingsOf(p *client.DeadLetterPolicy) []setting {
	yes := func(b bool) string { return strconv.FormatBool(b) }
	whole := func(n int32) string { return strconv.Itoa(int(n)) }
	limit := func(n *int64) string {
		if n == nil || *n == 0 {
			return ""
		}
		return strconv.FormatInt(*n, 10)
	}
	all := []setting{
		{"auto_retry", "Retry automatically", yes(p.AutoRetry), "bool"},
		{"max_retries", "Maximum retries", whole(p.MaxRetries), "number"},
		{"backoff.initial_interval_ms", "First wait", strconv.FormatInt(p.Backoff.InitialIntervalMS, 10), "span"},
		{"backoff.multiplier", "Backoff multiplier", number(p.Backoff.Multiplier), "number"},
		{"backoff.max_interval_ms", "Longest wait", strconv.FormatInt(p.Backoff.MaxIntervalMS, 10), "span"},
		{"backoff.jitter", "Jitter (0 to 1)", number(p.Backoff.Jitter), "number"},
		{"retry_permanent", "Retry permanent errors too", yes(p.RetryPermanent), "bool"},
		{"ordered", "Keep the order of each key", yes(p.Ordered), "bool"},
		{"max_generations", "Maximum returns of a letter", whole(p.MaxGenerations), "number"},
		{"retention_days", "Days until ended letters are archived", whole(p.RetentionDays), "number"},
		{"archive_days", "Days in the archive", whole(p.ArchiveDays), "number"},
		{"alert.count", "Alert above this many open letters", limit(p.Alert.Count), "number"},
		{"alert.rate", "Alert above this many arrivals in 5 min", limit(p.Alert.Rate), "number"},
		{"alert.age_ms", "Alert above this age of the oldest letter", limit(p.Alert.AgeMS), "span"},
		{"alert.new_group", "Alert on new errors", yes(p.Alert.NewGroup != nil && *p.Alert.NewGroup), "bool"},
		{"redact", "JSON members to hide, one per line", strings.Join(p.Redact, "\n"), "lines"},
		{"allowed_targets", "Other targets allowed, one per line", strings.Join(p.AllowedTargets, "\n"), "lines"},
		{"keep_headers", "Failure headers to send anyway, one per line", strings.Join(p.KeepHeaders, "\n"), "lines"},
	}
	if p.HoldAll != nil || p.Topic == nil {
		hold := setting{"hold_all", "Hold every topic, regardless of its policy", yes(p.HoldAll != nil && *p.HoldAll), "bool"}
		all = slices.Insert(all, 0, hold)
	}
	return all
}

// policyForm is the data for a policy form in addition to its fields.
type policyForm struct {
	*client.DeadLetterPolicy
	Unknown bool // no letter of the topic has ever been seen
}

// policyOf is the form for a policy, either of a topic or of all topics without their own.
func (p *pages) policyOf(v *web.Visit) (*web.Action, error) {
	topic := v.PathValue("topic")
	a := &web.Action{
		Label: "Save the policy", Title: "Policy of " + topic, Nav: "Dead letters", Class: web.Changes, Needs: "dlq:admin",
		Back: web.Link{Name: topic, URL: "/ui/dlq/topics/" + url.PathEscape(topic)}, NoKey: true, Template: "action-policy",
		DryRun: web.DryRunInQuery,
		Means: "The change takes effect within a second, for letters that arrive, fail or end from then on. Automatic retries " +
			"and retention apply to all letters.",
		Send: func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
			return p.kit.Client.UpdateTopicPolicyWithBody(
				ctx, topic, &client.UpdateTopicPolicyParams{}, web.JSON, body, edit)
		},
	}
	var now *client.DeadLetterPolicy
	var err error
	if topic == "" {
		a.Title, a.Back = "Default policy", web.Link{Name: "Topics", URL: "/ui/dlq/topics"}
		a.Send = func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
			return p.kit.Client.UpdateDefaultPolicyWithBody(ctx, &client.UpdateDefaultPolicyParams{}, web.JSON, body, edit)
		}
		res, failed := p.kit.Client.GetDefaultPolicyWithResponse(v.Context(), &client.GetDefaultPolicyParams{})
		if failed != nil {
			return nil, failed
		}
		now, err = web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
		a.ETag = res.HTTPResponse.Header.Get("ETag")
	} else {
		res, failed := p.kit.Client.GetTopicPolicyWithResponse(v.Context(), topic, &client.GetTopicPolicyParams{})
		if failed != nil {
			return nil, failed
		}
		now, err = web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
		a.ETag = res.HTTPResponse.Header.Get("ETag")
	}
	if err != nil {
		return nil, err
	}
	if a.Subject = topic; topic == "" {
		a.Subject = "*"
	}
	a.Extra = policyForm{now, topic != "" && now.Known != nil && !*now.Known}
	a.Done = func([]byte) string { return a.Back.URL }
	for _, s := range settingsOf(now) {
		a.Fields = append(a.Fields, policyField(s, now.Inherited))
	}
	a.Body = func(_ web.Form, members map[string]any) error { return policyBody(now, members) }
	a.Show = func(answer []byte) (*web.Preview, error) { return policyChanges(a, now, answer) }
	return a, nil
}

// policyGroups lists the groups of the form by the member with which each begins.
var policyGroups = map[string]string{
	"auto_retry": "Retries", "ordered": "Order and loops", "retention_days": "How long letters are kept",
	"alert.count": "Alerts", "redact": "Content and targets",
}

// policyField returns the field for a member. An inherited value is shown as a hint, and is not
// sent unless it is filled in.
func policyField(s setting, inherited bool) web.Field {
	f := web.Field{Name: s.Name, Label: s.Label, Value: s.Value, Kind: s.Kind, Group: policyGroups[s.Name],
		Rare: slices.Contains([]string{"backoff.multiplier", "backoff.jitter", "retry_permanent", "keep_headers"}, s.Name)}
	if s.Kind == "bool" {
		f.Kind = "select"
		f.Options = web.YesNo
		if inherited {
			f.Options = slices.Insert(f.Options, 0, web.Option{Label: asWord(s.Value) + " (inherited)"})
		}
	}
	if s.Kind == "span" {
		f.Value = web.SpanOf(s.Value)
	}
	if inherited {
		f.Hint, f.Value = strings.ReplaceAll(f.Value, "\n", " "), ""
	}
	return f
}

func asWord(value string) string {
	switch value {
	case "true":
		return "yes"
	case "false":
		return "no"
	}
	return value
}

// policyBody makes the merge patch for a policy from the form.
func policyBody(now *client.DeadLetterPolicy, members map[string]any) error {
	truth := func(in map[string]any, name string) {
		if s, ok := in[name].(string); ok {
			in[name] = s == "true"
		}
	}
	for _, name := range []string{"auto_retry", "retry_permanent", "ordered", "hold_all"} {
		truth(members, name)
	}
	if !now.Inherited {
		for name, before := range map[string][]string{
			"redact": now.Redact, "allowed_targets": now.AllowedTargets, "keep_headers": now.KeepHeaders,
		} {
			if members[name] == nil && len(before) > 0 {
				members[name] = []string{} // the field was emptied
			}
		}
	}
	filled, _ := members["alert"].(map[string]any)
	if filled == nil {
		return nil
	}
	truth(filled, "new_group")
	if now.Inherited { // an alert is replaced as a whole
		inherited, err := json.Marshal(now.Alert)
		if err != nil {
			return err
		}
		var whole map[string]any
		if err := json.Unmarshal(inherited, &whole); err != nil {
			return err
		}
		for name, value := range whole {
			if _, given := filled[name]; !given {
				filled[name] = value
			}
		}
	}
	return nil
}

// policyChanges describes what a patch changes.
func policyChanges(a *web.Action, now *client.DeadLetterPolicy, answer []byte) (*web.Preview, error) {
	var then client.DeadLetterPolicy
	if err := json.Unmarshal(answer, &then); err != nil {
		return nil, err
	}
	shown, err := a.Planned(answer)
	if err != nil || shown.Sentences == nil {
		return shown, err
	}
	switch {
	case now.AutoRetry && !then.AutoRetry:
		shown.Ends = "Letters waiting for an automatic retry are held within a second."
	case !now.AutoRetry && then.AutoRetry:
		shown.Ends = "Overdue letters are retried, spread over one backoff interval."
	}
	if now.Inherited && now.Topic != nil {
		shown.Sentences = append(shown.Sentences,
			"The topic gets its own policy, with these changes and the currently inherited values for everything else.")
	}
	return shown, nil
}
