package webhook

import "time"

// Audited returns the value whose hash the audit trail records for a subscription: its settings,
// without the keys and without the fields that Skald changes automatically.
func (s *Subscription) Audited() any {
	type secret struct {
		CreatedAt time.Time  `json:"created_at"`
		ExpiresAt *time.Time `json:"expires_at"`
	}
	secrets := make([]secret, len(s.Secrets))
	for i, k := range s.Secrets {
		secrets[i] = secret{k.CreatedAt, k.ExpiresAt}
	}
	// An empty list and nil mean the same, and storing may convert one into the other.
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
