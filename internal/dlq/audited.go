package dlq

// Audited returns the part of a policy that is hashed for the audit trail when the policy changes,
// or nil if no policy is stored.
func (p *Policy) Audited() any {
	if p.Version == 0 {
		return nil
	}
	return map[string]any{
		"topic": p.Topic, "version": p.Version, "max_retries": p.MaxRetries, "backoff": p.Backoff, "auto_retry": p.AutoRetry,
		"hold_all": p.HoldAll, "retry_permanent": p.RetryPermanent, "keep_headers": p.KeepHeaders,
		"ordered": p.Ordered, "retention_days": p.RetentionDays, "archive_days": p.ArchiveDays,
		"max_generations": p.MaxGenerations,
		"alert":           p.Alert, "redact": p.Redact, "allowed_targets": p.AllowedTargets,
	}
}

// Audited returns the part of a group that is hashed for the audit trail when the group changes. It
// consists of the fields that people set; arriving letters do not affect it.
func (g *Group) Audited() any {
	return map[string]any{
		"fingerprint": g.Fingerprint, "version": g.Version, "state": g.State, "assignee": g.Assignee, "note": g.Note,
	}
}
