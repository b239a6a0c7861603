package jobdb

import (
	"context"
	"database/sql"
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

// settingsFor is how long Current remembers what it has read.
const settingsFor = 2 * time.Second

// Settings is jobrun.SettingsStore on PostgreSQL. Safe for concurrent use.
type Settings struct {
	db *postgres.DB

	reading sync.Mutex // one reads, others wait for it
	mu      sync.Mutex
	known   jobrun.Settings // guarded by mu
	until   time.Time       // guarded by mu; zero: nothing is known
}

// NewSettings returns the settings of job runs of db.
func NewSettings(db *postgres.DB) *Settings { return &Settings{db: db} }

// Current returns the settings, at most two seconds old; older ones, rather than
// an error, when the database does not answer and they were read before.
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

const readSettings = `SELECT v.version, s.name, s.value::double precision, s.updated_by, s.updated_at
  FROM jobs.settings_version v LEFT JOIN jobs.settings s ON true`

// Settings implements jobrun.SettingsStore.
func (st *Settings) Settings(ctx context.Context) (jobrun.Settings, error) {
	changed, version, err := st.changed(ctx)
	values := map[string]float64{}
	for name, v := range changed {
		values[name] = v.Value
	}
	return jobrun.NewSettings(version, values), postgres.Outage("read the settings of job runs", err)
}

// changed returns what differs from the defaults.
func (st *Settings) changed(ctx context.Context) (map[string]jobrun.SettingValue, int64, error) {
	rows, err := st.db.QueryRead(ctx, readSettings)
	if err != nil {
		return nil, 0, err
	}
	out := map[string]jobrun.SettingValue{}
	var version int64
	err = postgres.EachRow(rows, func() error {
		var name, by sql.NullString
		var value sql.NullFloat64
		var at sql.NullTime
		if err := rows.Scan(&version, &name, &value, &by, &at); err != nil || !name.Valid {
			return err
		}
		postgres.UTC(&at.Time)
		out[name.String] = jobrun.SettingValue{Value: value.Float64, UpdatedBy: by.String, UpdatedAt: &at.Time}
		return nil
	})
	return out, version, err
}

// SettingValues implements jobrun.SettingsStore.
func (st *Settings) SettingValues(ctx context.Context) ([]jobrun.SettingValue, int64, error) {
	changed, version, err := st.changed(ctx)
	if err != nil {
		return nil, 0, postgres.Outage("read the settings of job runs", err)
	}
	out := make([]jobrun.SettingValue, 0, len(jobrun.SettingsList))
	for _, d := range jobrun.SettingsList {
		v, differs := changed[d.Name]
		if differs && jobrun.CheckSetting(d.Name, v.Value) != nil {
			differs, v = false, jobrun.SettingValue{} // written by hand; it counts as the default
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
	return after, postgres.Outage("change the settings of job runs", err)
}

func changeSettings(
	ctx context.Context, tx *sqlx.Tx, version int64, values map[string]*float64, by operator.Action,
) (jobrun.Settings, error) {
	var present int64
	if err := tx.GetContext(ctx, &present, `SELECT version FROM jobs.settings_version FOR UPDATE`); err != nil {
		return jobrun.Settings{}, err
	}
	if version != 0 && version != present {
		return jobrun.Settings{}, fault.New(fault.Precondition, jobrun.CodeStale, "the settings are at version %d, not %d", present, version)
	}
	var stored []struct {
		Name  string  `db:"name"`
		Value float64 `db:"value"`
	}
	if err := tx.SelectContext(ctx, &stored, `SELECT name, value::double precision AS value FROM jobs.settings`); err != nil {
		return jobrun.Settings{}, err
	}
	all := map[string]float64{}
	for _, s := range stored {
		all[s.Name] = s.Value
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
	by = by.From(jobrun.AuditedSettings(present, before), jobrun.AuditedSettings(present+1, all))
	return jobrun.NewSettings(present+1, all), auditdb.PutAction(ctx, tx, by)
}

// changeSetting stores one setting and its history, unless it is as it was.
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
		query = `INSERT INTO jobs.settings (name, value, updated_by, updated_at) VALUES ($1, to_jsonb($2::double precision), $3, clock_timestamp())
			ON CONFLICT (name) DO UPDATE SET value = excluded.value, updated_by = excluded.updated_by, updated_at = excluded.updated_at`
		args = append(args, *value, by.Actor)
	}
	if _, err := tx.ExecContext(ctx, query, args...); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO jobs.settings_history (version, name, old_value, new_value, changed_by, reason, changed_at)
		VALUES ($1, $2, to_jsonb($3::double precision), to_jsonb($4::double precision), $5, $6, clock_timestamp())`, version, name, old, value, by.Actor, by.Reason)
	return err
}

// SettingsHistory implements jobrun.SettingsStore.
func (st *Settings) SettingsHistory(ctx context.Context, limit int) ([]jobrun.SettingChange, error) {
	rows, err := st.db.QueryRead(ctx, `SELECT version, name, old_value::double precision, new_value::double precision, changed_by, reason, changed_at
		FROM jobs.settings_history ORDER BY version DESC, name LIMIT $1`, limit)
	if err != nil {
		return nil, postgres.Outage("read the history of settings", err)
	}
	var out []jobrun.SettingChange
	err = postgres.EachRow(rows, func() error {
		var c jobrun.SettingChange
		err := rows.Scan(&c.Version, &c.Name, &c.Old, &c.New, &c.By, &c.Reason, &c.At)
		postgres.UTC(&c.At)
		out = append(out, c)
		return err
	})
	return out, postgres.Outage("read the history of settings", err)
}

var _ jobrun.SettingsStore = (*Settings)(nil)
