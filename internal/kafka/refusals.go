package kafka

import (
	"errors"
	"regexp"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
)

// BatchRefused reports whether a batch was rejected because of one of its records.
func BatchRefused(err error) bool {
	return errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.RecordListTooLarge) ||
		errors.Is(err, kerr.InvalidRecord) ||
		errors.Is(err, kerr.InvalidTimestamp) || errors.Is(err, kerr.CorruptMessage)
}

// TooLarge reports whether a batch was rejected because of its size.
func TooLarge(err error) bool {
	return errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.RecordListTooLarge)
}

// batchHeader is the size in bytes of a batch without records.
const batchHeader = 61

var compressedBytes = regexp.MustCompile(`compressed_bytes=([0-9]+)\)`)

// RefusedSize returns the size in bytes, as sent and compressed, of a batch that was TooLarge.
// Brokers compare this size with their limit. 0 means unknown.
func RefusedSize(err error) int {
	if err == nil {
		return 0
	}
	if m := compressedBytes.FindStringSubmatch(err.Error()); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil {
			return n + batchHeader
		}
	}
	return 0
}

// missingTopic contains the errors that mean that the topic does not exist.
var missingTopic = []error{kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.InvalidTopicException}

// MissingTopic reports whether a record was rejected because its topic does not exist.
func MissingTopic(err error) bool {
	return slices.ContainsFunc(missingTopic, func(e error) bool { return errors.Is(err, e) })
}

// certainRefusals contains the errors after which a record is certainly not in the topic.
var certainRefusals = []error{
	kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed,
	kerr.PolicyViolation, kerr.UnsupportedForMessageFormat, kerr.InvalidRequiredAcks,
}

// Refusal reports whether a broker has rejected this very record, so that it is certainly not in
// the topic.
func Refusal(err error) bool {
	return slices.ContainsFunc(certainRefusals, func(e error) bool { return errors.Is(err, e) })
}
