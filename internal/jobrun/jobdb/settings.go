package jobdb

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/postgres"
)

// settingsFor is how long Current caches the settings.
const settingsFor = 2 * time.Second

// Settings is jobrun.SettingsStore on PostgreSQL. It is safe for concurrent use.
type Settings struct {
	db *postgres.DB

	reading sync.Mutex // held while reading
	mu      sync.Mutex
	known   jobrun.Settings // guarded by mu
	until   time.Time       // guarded by mu; zero: nothing is cached
}

// NewSettings returns the settings of job runs of db.
func NewSettings(db *postgres.DB) *Settings { return &Settings{db: db} }

// Current returns the settings, which are at most two seconds old. If the database does not respond
// and older settings are cached, it returns those instead of an error.
func (st *Settings) Current(ctx context.Context) (jobrun.Settings, error) {
	if s, fresh, _ := st.remembered(); fresh {
		return s, nil
	}
	st.reading.Lock()
	defer st.reading.Unlock()
	s, fresh, known := st.remembered()
	if fresh {
		return s, nil
	}
	read, err := st.Settings(ctx)
	if err != nil {
		if known {
			return s, nil
		}
		return s, err
	}
	st.remember(read)
	return read, nil
}

func (st *Settings) remembered() (s jobrun.Settings, fresh, known bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.known, time.Now().Before(st.until), !st.until.IsZero()
}

func (st *Settings) remember(s jobrun.Settings) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.known, st.until = s, time.Now().Add(settingsFor)
}

var readSettings = `SELECT ` + settingTable.Selected("s") + `
  FROM jobs.settings_version v
  LEFT JOIN jobs.settings s ON true`

// Settings implements jobrun.SettingsStore.
func (st *Settings) Settings(ctx context.Context) (jobrun.Settings, error) {
	changed, version, err := st.changed(ctx)
	values := map[string]float64{}
	for name, v := range changed {
		values[name] = v.Value
	}
	return jobrun.NewSettings(version, values), postgres.Wrap("read the settings of job runs", err)
}

// changed returns the settings that differ from the defaults.
func (st *Settings) changed(ctx context.Context) (map[string]jobrun.SettingValue, int64, error) {
	return settingsOf(settingTable.All(st.db.QueryRead(ctx, readSettings)))
}

// settingsOf returns the values that readSettings has read, and their version.
func settingsOf(rows []settingRow, err error) (map[string]jobrun.SettingValue, int64, error) {
	out := map[string]jobrun.SettingValue{}
	var version int64
	for _, s := range rows {
		version = s.version
		if s.name != "" {
			out[s.name] = s.SettingValue
		}
	}
	return out, version, err
}

// SettingValues implements jobrun.SettingsStore.
func (st *Settings) SettingValues(ctx context.Context) ([]jobrun.SettingValue, int64, error) {
	changed, version, err := st.changed(ctx)
	if err != nil {
		return nil, 0, postgres.Wrap("read the settings of job runs", err)
	}
	out := make([]jobrun.SettingValue, 0, len(jobrun.SettingsList))
	for _, d := range jobrun.SettingsList {
		v, differs := changed[d.Name]
		if differs && jobrun.CheckSetting(d.Name, v.Value) != nil {
			differs, v = false, jobrun.SettingValue{} // invalid, after manual editing; the default applies
		}
		if v.Setting, v.IsDefault = d, !differs; v.IsDefault {
			v.Value = d.Default
		}
		out = append(out, v)
	}
	return out, version, nil
}

// ChangeSettings implements jobrun.SettingsStore.
func (st *Settings) ChangeSettings(
	ctx context.Context, version int64, values map[string]*float64, by operator.Action,
) (jobrun.Settings, error) {
	var after jobrun.Settings
	err := st.db.InRead(ctx, func(tx *sqlx.Tx) (err error) {
		after, err = changeSettings(ctx, tx, version, values, by)
		return err
	})
	if err == nil {
		st.remember(after)
	}
	return after, postgres.Wrap("change the settings of job runs", err)
}

func changeSettings(
	ctx context.Context, tx *sqlx.Tx, version int64, values map[string]*float64, by operator.Action,
) (jobrun.Settings, error) {
	if _, err := tx.ExecContext(ctx, `SELECT version FROM jobs.settings_version FOR UPDATE`); err != nil {
		return jobrun.Settings{}, err
	}
	stored, present, err := settingsOf(settingTable.All(tx.QueryContext(ctx, readSettings)))
	if err != nil {
		return jobrun.Settings{}, err
	}
	if version != 0 && version != present {
		return jobrun.Settings{}, fault.New(fault.Precondition, jobrun.CodeStale, "the settings are at version %d, not %d", present, version)
	}
	all := map[string]float64{}
	for name, s := range stored {
		all[name] = s.Value
	}
	before := maps.Clone(all)
	for name, v := range values {
		if v == nil {
			delete(all, name)
		} else {
			all[name] = *v
		}
	}
	after := jobrun.NewSettings(present, all)
	if err := jobrun.CheckSettings(values, after); err != nil {
		return after, err
	}
	if maps.Equal(before, all) {
		return after, nil
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if err := changeSetting(ctx, tx, present+1, name, before, values[name], by); err != nil {
			return after, err
		}
	}
	if _, err := tx.ExecContext(ctx, `UPDATE jobs.settings_version SET version = $1`, present+1); err != nil {
		return after, err
	}
	was := map[string]*float64{} // the stored values of the changed settings; nil: the default
	for name := range values {
		if old, differs := before[name]; differs {
			was[name] = &old
		} else {
			was[name] = nil
		}
	}
	if by.Detail, err = json.Marshal(map[string]any{"before": was, "after": values}); err != nil {
		return after, err
	}
	by = by.From(jobrun.AuditedSettings(present, before), jobrun.AuditedSettings(present+1, all))
	return jobrun.NewSettings(present+1, all), auditdb.PutAction(ctx, tx, by)
}

// changeSetting stores one setting and its history, unless it is unchanged.
func changeSetting(ctx context.Context, tx *sqlx.Tx, version int64, name string, before map[string]float64,
	value *float64, by operator.Action) error {
	var old *float64
	if v, differs := before[name]; differs {
		old = &v
	}
	query, args := `DELETE FROM jobs.settings WHERE name = $1`, []any{name}
	switch {
	case old == value, old != nil && value != nil && *old == *value:
		return nil
	case value != nil:
		query = `INSERT INTO jobs.settings (name, value, updated_by, updated_at)
		 VALUES ($1, to_jsonb($2::double precision), $3, clock_timestamp())
			ON CONFLICT (name)
			 DO UPDATE SET value = excluded.value, updated_by = excluded.updated_by, updated_at = excluded.updated_at`
		args = append(args, *value, by.Actor)
	}
	if _, err := tx.ExecContext(ctx, query, args...); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	change := jobrun.SettingChange{Version: version, Name: name, Old: old, New: value, By: by.Actor, Reason: by.Reason}
	_, err := tx.ExecContext(ctx, insertSettingChange.Text, insertSettingChange.Args(settingChangeTable.Row(&change))...)
	return err
}

var (
	insertSettingChange = postgres.Named(`
		INSERT INTO jobs.settings_history (`+settingChangeTable.Inserted()+`)
		VALUES (`+settingChangeTable.Values("h")+`)`, settingChangeTable.As("h"))
	readSettingChanges = `
		SELECT ` + settingChangeTable.Selected("h") + ` FROM jobs.settings_history h ORDER BY h.version DESC, h.name LIMIT $1`
)

// SettingsHistory implements jobrun.SettingsStore.
func (st *Settings) SettingsHistory(ctx context.Context, limit int) ([]jobrun.SettingChange, error) {
	out, err := settingChangeTable.All(st.db.QueryRead(ctx, readSettingChanges, limit))
	return out, postgres.Wrap("read the history of settings", err)
}

var _ jobrun.SettingsStore = (*Settings)(nil)
