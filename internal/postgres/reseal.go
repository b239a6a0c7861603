package postgres

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/loop"
	"github.com/skald-saga/skald/internal/secret/envelope"
)

// Resealing is the progress of Reseal. As a JSON document, it allows another process to continue.
type Resealing struct {
	Key   string   `json:"key"`   // ID of the key that everything will be sealed with
	Pass  int      `json:"pass"`  // number of the pass over all tables; the last pass finds nothing to do
	Table string   `json:"table"` // table that is being read; "": the pass has ended
	After []string `json:"after"` // primary key of the last processed row; nil: none
	Rows  int64    `json:"rows"`  // rows read in this pass
	Moved int64    `json:"moved"` // how many of these were resealed
	Busy  int64    `json:"busy"`  // how many of these another session was changing
	// Resealed counts the rows that all passes resealed, by table.
	Resealed map[string]int64 `json:"resealed"`
	// Left counts the rows of this pass that still need another key, by key and table.
	Left map[string]map[string]int64 `json:"left"`
}

const (
	resealPage  = 500     // rows that are checked at once
	resealRows  = 100     // rows that are resealed at once,
	resealBytes = 4 << 20 // or fewer, with at most this much content unless it is one row
	maxPasses   = 10
)

// Reseal reseals with the current key all content in the tables that was sealed with other keys, in small
// batches of page rows (0: 500). It continues at from, if that is not zero. tell is called after
// each batch. Passes over all tables are repeated until a pass finds nothing to do; Left then
// contains only rows that cannot be opened.
//
// A row is written only if it is not locked and its content has not changed since it was read, so
// no other write waits for long or is lost. Its version and updated_at stay the same.
func (db *DB) Reseal(ctx context.Context, tables []SealedTable, from Resealing, page int,
	tell func(Resealing)) (Resealing, error) {
	if page == 0 {
		page = resealPage
	}
	if !db.Keys.Seals() {
		return Resealing{}, nil
	}
	st := from
	if st.Key != db.Keys.Current() || st.Pass == 0 {
		st = Resealing{Key: db.Keys.Current(), Pass: 1, Resealed: map[string]int64{}, Left: map[string]map[string]int64{}}
	}
	for {
		begun := st.Table == ""
		for i := range tables {
			if begun = begun || tables[i].Name == st.Table; !begun {
				continue // already done
			}
			if st.Table != tables[i].Name {
				st.Table, st.After = tables[i].Name, nil
			}
			if err := db.resealTable(ctx, &tables[i], &st, page, tell); err != nil {
				return st, Wrap("seal "+tables[i].Name+" again", err)
			}
		}
		st.Table, st.After = "", nil
		if st.Moved == 0 && st.Busy == 0 || st.Pass == maxPasses {
			return st, nil
		}
		st.Pass, st.Rows, st.Moved, st.Busy, st.Left = st.Pass+1, 0, 0, 0, map[string]map[string]int64{}
	}
}

func (db *DB) resealTable(ctx context.Context, t *SealedTable, st *Resealing, page int, tell func(Resealing)) error {
	for {
		rows, last, n, err := db.findSealed(ctx, t, st, page)
		if err != nil {
			return err
		}
		for len(rows) > 0 {
			chunk := firstRows(rows)
			began := time.Now()
			if err := db.resealRows(ctx, t, st, rows[:chunk]); err != nil {
				return err
			}
			rows = rows[chunk:]
			if err := rest(ctx, time.Since(began)); err != nil {
				return err
			}
		}
		st.Rows += int64(n)
		if n > 0 {
			st.After = last
			tell(*st)
		}
		if n < page {
			return nil
		}
	}
}

// rest pauses for as long as the last batch took.
func rest(ctx context.Context, taken time.Duration) error {
	if !loop.Sleep(ctx, min(taken, time.Second)) {
		return context.Cause(ctx)
	}
	return nil
}

// oldRow is a row whose content was sealed with another key.
type oldRow struct {
	at    string // its ctid
	bytes int64
}

// findSealed reads the next page of a table. It returns the rows to be resealed, the primary key of
// the last row, and the number of rows read.
func (db *DB) findSealed(ctx context.Context, t *SealedTable, st *Resealing, page int) (
	found []oldRow, last []string, n int, err error,
) {
	args := []any{st.Key}
	for _, v := range st.After {
		args = append(args, v)
	}
	rows, err := db.QueryRead(ctx, t.find(len(st.After), page), args...)
	if err != nil {
		return nil, nil, 0, err
	}
	err = EachRow(rows, func() error {
		var r oldRow
		last = make([]string, len(t.Key))
		into := []any{&r.at, &r.bytes}
		for i := range last {
			into = append(into, &last[i])
		}
		if err := rows.Scan(into...); err != nil {
			return err
		}
		if n++; r.bytes > 0 {
			found = append(found, r)
		}
		return nil
	})
	return found, last, n, err
}

// firstRows returns how many rows are resealed at once.
func firstRows(rows []oldRow) int {
	var size int64
	for i, r := range rows {
		if size += r.bytes; i > 0 && size > resealBytes || i == resealRows {
			return i
		}
	}
	return len(rows)
}

// resealRows reseals the content of rows. Rows that another session has locked, or has changed
// since they were found, are left for the next pass.
func (db *DB) resealRows(ctx context.Context, t *SealedTable, st *Resealing, found []oldRow) error {
	at := make([]string, len(found))
	for i := range found {
		at[i] = found[i].at
	}
	rows, err := db.QueryRead(ctx, t.read(), pq.Array(at), st.Key)
	if err != nil {
		return err
	}
	b := resealed{content: make([][]sql.NullString, 2*len(t.Values))}
	olds := map[string]bool{}
	err = EachRow(rows, func() error {
		read, left, err := db.resealRow(t, rows, &b)
		for key := range left {
			st.leave(t, key, 1)
		}
		for key := range read {
			olds[key] = true
		}
		return err
	})
	if err != nil || len(b.at) == 0 {
		return err
	}
	args := []any{pq.Array(b.at)}
	for _, c := range b.content {
		args = append(args, pq.Array(c))
	}
	var n int64
	err = db.InRead(ctx, func(tx *sqlx.Tx) error {
		// The triggers that stamp updated_at ignore these updates, and the triggers that protect
		// ended sagas allow them (migration 0253).
		if _, err := tx.ExecContext(ctx, `SELECT set_config('skald.resealing', 'on', true)`); err != nil {
			return err
		}
		done, err := tx.ExecContext(ctx, t.put(), args...)
		if err != nil {
			return err
		}
		n, err = done.RowsAffected()
		return err
	})
	if err != nil {
		return err
	}
	st.Moved += n
	st.Resealed[t.Name] += n
	if busy := int64(len(b.at)) - n; busy > 0 {
		st.Busy += busy
		for key := range olds {
			st.leave(t, key, busy) // an upper bound for each
		}
	}
	return nil
}

// leave counts rows that still need an old key.
func (st *Resealing) leave(t *SealedTable, key string, rows int64) {
	if st.Left[key] == nil {
		st.Left[key] = map[string]int64{}
	}
	st.Left[key][t.Name] += rows
}

// resealed is a batch of rows to write: their locations, and the old and new values of each column.
type resealed struct {
	at      []string
	content [][]sql.NullString
}

// resealRow reads one row and adds it to the batch if it can be resealed. It returns the keys with
// which the content was sealed, and the keys that are still needed because content cannot be
// opened.
func (db *DB) resealRow(t *SealedTable, row Scanner, b *resealed) (read, left map[string]bool, err error) {
	var at string
	var tenant, place uuid.UUID
	var field envelope.Field
	was := make([]sql.NullString, len(t.Values))
	into := []any{&at, &tenant, &place, &field.Step, &field.Action, &field.Attempt}
	for i := range was {
		into = append(into, &was[i])
	}
	if err := row.Scan(into...); err != nil {
		return nil, nil, err
	}
	sealer := db.Keys.SealerFor(tenant, place)
	read, left = map[string]bool{}, map[string]bool{}
	is, changed := make([]sql.NullString, len(was)), false
	for i := range t.Values {
		if !was[i].Valid {
			continue
		}
		v, altered := &t.Values[i], false
		stored := []byte(was[i].String)
		if v.Form == SealedBytes {
			if stored, err = hex.DecodeString(was[i].String); err != nil {
				return nil, nil, err
			}
		}
		fresh, err := v.eachSealed(stored, field, func(f envelope.Field, old []byte) ([]byte, error) {
			again, key, err := v.again(&sealer, f, old)
			switch {
			case errors.Is(err, envelope.ErrUnreadable):
				left[key] = true
				return old, nil
			case err == nil && key != "":
				read[key], altered = true, true
			}
			return again, err
		})
		if err != nil {
			return nil, nil, err
		}
		if !altered {
			was[i] = sql.NullString{}
			continue
		}
		changed, is[i] = true, sql.NullString{String: string(fresh), Valid: true}
		if v.Form == SealedBytes {
			is[i].String = hex.EncodeToString(fresh)
		}
	}
	if changed {
		b.at = append(b.at, at)
		for i := range was {
			b.content[2*i], b.content[2*i+1] = append(b.content[2*i], was[i]), append(b.content[2*i+1], is[i])
		}
	}
	return read, left, nil
}

// again reseals a value with the current key, and returns the key that it was sealed with; "" means
// that the value stays the same.
func (v *SealedValue) again(p *envelope.Sealer, f envelope.Field, old []byte) (fresh []byte, key string, err error) {
	if v.Form == SealedJSON {
		if !bytes.HasPrefix(old, []byte(`{"$skald_enc"`)) {
			return old, "", nil
		}
		if old, err = Canonical(old); err != nil {
			return nil, "", err
		}
	}
	if key = envelope.KeyOf(old); key == "" || key == p.Key() {
		return old, "", nil
	}
	if v.Form == SealedJSON {
		plain, err := p.Open(f, old)
		if err != nil {
			return nil, key, err
		}
		fresh, err = p.Seal(f, plain)
		return fresh, key, err
	}
	plain, err := p.OpenBytes(f, old)
	if err != nil {
		return nil, key, err
	}
	if v.Form == SealedText {
		text, err := p.SealText(f, string(plain))
		return []byte(text), key, err
	}
	fresh, err = p.SealBytes(f, plain)
	return fresh, key, err
}
