package webhook

import "time"

// Audited returns what the record of actions hashes of a subscription: its
// settings, without the keys and without what changes by itself.
func (s *Subscription) Audited() any {
	type secret struct {
		CreatedAt time.Time  `json:"created_at"`
		ExpiresAt *time.Time `json:"expires_at"`
	}
	secrets := make([]secret, len(s.Secrets))
	for i, k := range s.Secrets {
		secrets[i] = secret{k.CreatedAt, k.ExpiresAt}
	}
	// No entries and nil are the same selection, and are read back as one of the two.
	all := func(entries []string) []string { return append([]string{}, entries...) }
	return map[string]any{
		"id":             s.ID,
		"url":            s.URL,
		"description":    s.Description,
		"event_types":    all(s.EventTypes),
		"workflow_names": all(s.WorkflowNames),
		"enabled":        s.Enabled, "disabled_reason": s.DisabledReason, "version": s.Version, "secrets": secrets,
	}
}
