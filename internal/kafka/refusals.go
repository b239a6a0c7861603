package kafka

import (
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
)

// BatchRefused tells whether a batch was refused because of one of its records.
func BatchRefused(err error) bool {
	return errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.RecordListTooLarge) ||
		errors.Is(err, kerr.InvalidRecord) ||
		errors.Is(err, kerr.InvalidTimestamp) || errors.Is(err, kerr.CorruptMessage)
}

// missingTopic are errors that mean that the topic does not exist.
var missingTopic = []error{kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.InvalidTopicException}

// MissingTopic tells whether a record was refused because its topic does not exist.
func MissingTopic(err error) bool {
	return slices.ContainsFunc(missingTopic, func(e error) bool { return errors.Is(err, e) })
}

// certainRefusals are errors after which a record is certainly not in the topic.
var certainRefusals = []error{
	kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed,
	kerr.PolicyViolation, kerr.UnsupportedForMessageFormat, kerr.InvalidRequiredAcks,
}

// Refusal tells whether a broker has refused a record by itself, so that it is certainly
// not in the topic.
func Refusal(err error) bool {
	return slices.ContainsFunc(certainRefusals, func(e error) bool { return errors.Is(err, e) })
}
