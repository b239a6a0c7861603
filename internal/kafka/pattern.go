package kafka

import (
	"fmt"
	"regexp"
)

// Pattern decides which topics are dead-letter topics. The zero value matches no topic.
type Pattern struct{ topics, exclude *regexp.Regexp }

// NewPattern compiles the expressions of an IngestConfig. An empty expression for topics matches no
// topic.
func NewPattern(topics, exclude string) (Pattern, error) {
	var p Pattern
	var err error
	if topics == "" {
		return p, nil
	}
	if p.topics, err = regexp.Compile(topics); err != nil {
		return Pattern{}, fmt.Errorf("kafka: compile the pattern of dead-letter topics: %w", err)
	}
	if exclude != "" {
		if p.exclude, err = regexp.Compile(exclude); err != nil {
			return Pattern{}, fmt.Errorf("kafka: compile the pattern of excluded topics: %w", err)
		}
	}
	return p, nil
}

// Forbidden reports whether ingestion reads a topic, so that letters must not be sent there because
// they would come back immediately (invariant D6).
func (p Pattern) Forbidden(topic string) bool {
	return p.topics != nil && p.topics.MatchString(topic) && (p.exclude == nil || !p.exclude.MatchString(topic))
}
