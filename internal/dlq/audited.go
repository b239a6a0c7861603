package dlq

// Audited returns what is hashed of a policy when somebody changes it; nil when
// none is stored.
func (p *Policy) Audited() any {
	if p.Version == 0 {
		return nil
	}
	return map[string]any{
		"topic": p.Topic, "version": p.Version, "max_retries": p.MaxRetries, "backoff": p.Backoff, "auto_retry": p.AutoRetry,
		"hold_all": p.HoldAll,
		"ordered":  p.Ordered, "retention_days": p.RetentionDays, "archive_days": p.ArchiveDays,
		"max_generations": p.MaxGenerations,
		"alert":           p.Alert, "redact": p.Redact, "allowed_targets": p.AllowedTargets,
	}
}

// Audited returns what is hashed of a group when somebody changes it: what people
// have made of it, which the arrival of letters does not move.
func (g *Group) Audited() any {
	return map[string]any{
		"fingerprint": g.Fingerprint, "version": g.Version, "state": g.State, "assignee": g.Assignee, "note": g.Note,
	}
}
