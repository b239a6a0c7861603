package jobrun

// Audited returns the value whose hash the audit trail records when a definition changes. It is the
// definition's spec without fields that change automatically and without the default arguments,
// which not every reader may see (SpecVersion shows that they changed).
func (d *Definition) Audited() any {
	spec := d.Spec
	spec.DefaultArgs = nil
	return map[string]any{
		"id": d.ID, "name": d.Name, "version": d.Version, "spec_version": d.SpecVersion, "spec": spec, "enabled": d.Enabled,
		"paused_at": d.PausedAt, "paused_until": d.PausedUntil, "pause_reason": d.PauseReason, "built_in": d.BuiltIn,
	}
}

// AuditedSettings returns the value whose hash the audit trail records when settings change: the
// settings that differ from their defaults.
func AuditedSettings(version int64, values map[string]float64) any {
	return map[string]any{"version": version, "values": values}
}
