package config

import (
	"regexp"
	"strings"

	"github.com/google/uuid"
)

// Source is a topic whose records become events.
type Source struct {
	Topic  string
	Tenant uuid.UUID // zero: the default tenant
}

var topicName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,249}$`)

// sourceOf reads an entry of Kafka.SourceTopics.
func sourceOf(entry string) (s Source, ok bool) {
	topic, tenant, named := strings.Cut(entry, "=")
	if s.Topic = topic; !topicName.MatchString(topic) || topic == "." || topic == ".." {
		return s, false
	}
	if !named {
		return s, true
	}
	var err error
	s.Tenant, err = uuid.Parse(tenant)
	return s, err == nil && len(tenant) == 36 && s.Tenant != uuid.Nil
}

func sourceTopic(entry string) bool {
	_, ok := sourceOf(entry)
	return ok
}

// Sources returns the topics whose records become events.
func (k Kafka) Sources() []Source {
	out := make([]Source, 0, len(k.SourceTopics))
	for _, entry := range k.SourceTopics {
		if s, ok := sourceOf(entry); ok {
			out = append(out, s)
		}
	}
	return out
}

// brokenSources returns what is wrong with the topics whose records become events; "" if they
// are valid.
func brokenSources(c Config) string {
	seen := map[string]bool{}
	for _, s := range c.Kafka.Sources() {
		switch {
		case seen[s.Topic]:
			return "names " + s.Topic + " twice: a topic belongs to one tenant"
		case s.Topic == c.Kafka.EventTopic:
			return "must not contain kafka.event_topic: the audit events of all tenants would become events of one"
		case c.Ingest.Topics != "" && regexp.MustCompile(c.Ingest.Topics).MatchString(s.Topic) &&
			(c.Ingest.Exclude == "" || !regexp.MustCompile(c.Ingest.Exclude).MatchString(s.Topic)):
			return "must not match ingest.topics: " + s.Topic + " would also be read as a dead-letter topic"
		}
		seen[s.Topic] = true
	}
	return ""
}
