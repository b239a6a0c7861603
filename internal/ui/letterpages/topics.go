package letterpages

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// topicList is the page that lists the topics.
type topicList struct {
	*web.List
	Areas   []web.Tab
	Topics  []topicRow
	Most    string      // the limit up to which letters are counted
	Default *web.Button // the default policy
	Import  *web.Button
}

// topicRow is a topic whose letters were counted up to a limit.
type topicRow struct{ client.DeadLetterTopic }

// More reports whether a status has more letters than were counted.
func (r topicRow) More(status string) bool {
	return slices.Contains(r.CountsCapped, client.DeadLetterStatus(status))
}

// countedAtMost is the limit for counting each status of a topic. Counting a million letters takes
// too long for a page that is refreshed every ten seconds.
const countedAtMost = 1000

var topicFilters = []web.Filter{{Name: "topic", Label: "Topic", Hint: "orders.*"}}

func (p *pages) topics(v *web.Visit) (*web.Page, error) {
	l, list, err := web.ListPage[client.DeadLetterTopicList](v, nil, topicFilters, p.kit.Client.ListDeadLetterTopics,
		"page_size", "100", "count_up_to", strconv.Itoa(countedAtMost))
	if err != nil {
		return nil, err
	}
	d := topicList{List: l, Areas: areas("Topics"), Most: web.Count(countedAtMost)}
	for _, t := range list.Topics {
		d.Topics = append(d.Topics, topicRow{t})
	}
	if !p.kit.ReadOnly {
		b := v.Button("Default policy", "/ui/dlq/policy", "dlq:admin", "Applies to topics without their own policy.", web.Changes)
		b.Page = true
		d.Default, d.Import = &b, importButton(v)
	}
	return &web.Page{Template: "topics", Title: "Topics", Nav: "Dead letters", Refresh: 10, Data: d}, nil
}

// topicPage shows one topic: its open letters, how long they have been open, and its policy.
type topicPage struct {
	Topic            *client.DeadLetterTopic
	Sentence         string
	Alerts           []string
	Policy           []setting
	Inherited        bool
	PolicyUnreadable *bool
	ByWhom           *string
	WhoseName        *string
	Actions          []web.Button
	Export           string
	Areas            []web.Tab
	Now              time.Time
}

// alertWords describe which limits of the policy's alert are exceeded.
var alertWords = map[client.DeadLetterTopicAlerts]string{
	"count": "more open letters than the alert threshold", "rate": "more letters in five minutes than the alert threshold",
	"age_ms": "the oldest open letter is older than the alert threshold", "new_group": "an error not seen before",
}

func (p *pages) topic(v *web.Visit) (*web.Page, error) {
	name := v.PathValue("topic")
	res, err := p.kit.Client.GetDeadLetterTopicWithResponse(v.Context(), name)
	if err != nil {
		return nil, err
	}
	t, err := web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
	if err != nil {
		return nil, err
	}
	filter := url.Values{"topic": {name}}.Encode()
	d := topicPage{
		Topic: t, Sentence: aboutTopic(t, nil), Areas: areas("Topics"), Now: v.Now, Export: "/api/v1/dlq/export?" + filter,
	}
	for _, a := range t.Alerts {
		words := alertWords[a]
		if words == "" {
			words = string(a)
		}
		d.Alerts = append(d.Alerts, words)
	}
	if v.May("dlq:admin") {
		policy, err := p.kit.Client.GetTopicPolicyWithResponse(v.Context(), name, &client.GetTopicPolicyParams{})
		if err != nil {
			return nil, err
		}
		own, err := web.Got(policy.JSON200, policy.ApplicationProblemJSONDefault)
		if err != nil {
			return nil, err
		}
		d.Policy, d.Inherited = settingsOf(own), own.Inherited
		d.ByWhom, d.WhoseName = own.UpdatedBy, own.UpdatedByName
		d.PolicyUnreadable, d.Sentence = own.PolicyUnreadable, aboutTopic(t, own)
	}
	if !p.kit.ReadOnly {
		q := url.Values{
			"action": {"retry"}, "filter.topic": {name}, "canary.count": {"10"}, "canary.watch_seconds": {"30"},
			"stop_on.failure_ratio": {"0.1"},
		}
		redrive := v.Button("Retry its letters", "/ui/redrives/new?"+q.Encode(), "dlq:write",
			"Retry the pending letters of this topic.", web.Changes)
		policy := v.Button("Change the policy", "/ui/dlq/topics/"+url.PathEscape(name)+"/policy", "dlq:admin",
			"Retries, retention, alerts.", web.Changes)
		redrive.Page, policy.Page = true, true
		d.Actions = append(d.Actions, redrive, policy)
	}
	return &web.Page{Template: "topic", Title: name, Nav: "Dead letters", Refresh: 5, Data: d}, nil
}

// aboutTopic describes the topic's open letters; policy is nil if the visitor may not read it.
func aboutTopic(t *client.DeadLetterTopic, policy *client.DeadLetterPolicy) string {
	open := t.Counts.PENDING + t.Counts.RETRYING
	var words []string
	switch {
	case open == 0 && t.Counts.DEAD == 0:
		words = append(words, "No letters are open: all of them have ended.")
	case open == 0:
		words = append(words, letters(t.Counts.DEAD, "is", "are")+" dead and waiting for an operator; none are open.")
	default:
		words = append(words, letters(open, "is", "are")+" open, "+letters(t.Counts.DEAD, "is", "are")+" dead.")
		if policy != nil && !policy.AutoRetry {
			words = append(words, "Automatic retries are off: open letters wait for an operator or a redrive.")
		}
	}
	if n := t.Arrivals.Last5M; n > 0 {
		words = append(words, web.Count(n)+" arrived in the last five minutes.")
	} else if n := t.Arrivals.Last24H; n > 0 {
		words = append(words, "None arrived in the last five minutes, "+web.Count(n)+" in the last day.")
	}
	return strings.Join(words, " ")
}

// letters formats a number of letters with the matching verb.
func letters(n int64, one, many string) string {
	if n == 1 {
		return "1 letter " + one
	}
	return web.Count(n) + " letters " + many
}
