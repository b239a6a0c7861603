package postgres

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/skald-saga/skald/internal/secret/envelope"
)

// SealedTable describes which content of a table is sealed, and for which place, so that Reseal can
// reseal it.
type SealedTable struct {
	Name  string   // including the schema
	Key   []string // columns of the primary key
	Place string   // column with the ID that content is sealed for, in addition to tenant_id
	// Step, Action and Attempt are the columns of an envelope.Field; "" means that there is no such column.
	Step, Action, Attempt string
	Values                []SealedValue
}

// SealedValue is a column with sealed content.
type SealedValue struct {
	Column string
	Form   SealedForm
	Field  string // the name of the envelope.Field
	// Inside lists the members of a document that are sealed; nil means that the whole value is sealed.
	Inside []SealedMember
}

// SealedMember is a sealed member of a JSON document. "*" in its path stands for every member; the
// member's name is the step of the field.
type SealedMember struct {
	Path  []string
	Field string
}

// SealedForm is the type of a column with sealed content.
type SealedForm int

// Forms of sealed content: what Seal, SealBytes and SealText of an envelope.Sealer return.
const (
	SealedJSON SealedForm = iota
	SealedBytes
	SealedText
)

// old returns the condition that a value of t is sealed, but not with the key whose ID is in a
// parameter.
func (v *SealedValue) old(key string) string {
	c := "t." + v.Column
	switch {
	case v.Form == SealedBytes:
		head := "convert_to('b1.' || " + key + " || '.', 'UTF8')"
		return "coalesce(substr(" + c + ", 1, 11) = '$skald_enc:'::bytea AND substr(" + c + ", 12, length(" + head + ")) <> " +
			head + ", false)"
	case v.Form == SealedText:
		return "coalesce(starts_with(" + c + ", '$skald_enc:') AND NOT starts_with(" + c + ", '$skald_enc:t1.' || " + key +
			" || '.'), false)"
	case v.Inside != nil:
		return "coalesce(strpos(replace(" + c + "::text, '\"$skald_enc\": \"v1.' || " + key +
			" || '.', ''), '\"$skald_enc\": \"v1.') > 0, false)"
	default:
		return "coalesce(NOT starts_with(" + c + " ->> '$skald_enc', 'v1.' || " + key + " || '.'), false)"
	}
}

// asText returns a column of t as text; fromText is the inverse.
func (v *SealedValue) asText() string {
	switch v.Form {
	case SealedBytes:
		return "encode(t." + v.Column + ", 'hex')"
	case SealedText:
		return "t." + v.Column
	default:
		return "t." + v.Column + "::text"
	}
}

func (v *SealedValue) fromText(text string) string {
	switch v.Form {
	case SealedBytes:
		return "decode(" + text + ", 'hex')"
	case SealedText:
		return text
	default:
		return text + "::jsonb"
	}
}

// find returns a query for a page of rows in the order of their primary key: the location of the
// row, the size of the content to be resealed, and the primary key. Its parameters are the ID of
// the keyring's current key and the primary key after which the page begins.
func (t *SealedTable) find(after, limit int) string {
	columns := append([]string{"r.ctid AS at"}, prefixed("r.", t.Key)...)
	var sizes, key, from []string
	for i := range t.Values {
		c := t.Values[i].Column
		columns = append(columns, "r."+c)
		sizes = append(sizes, "CASE WHEN "+t.Values[i].old("$1::text")+" THEN pg_column_size(t."+c+") ELSE 0 END")
	}
	ordered := strings.Join(prefixed("r.", t.Key), ", ")
	where := ""
	if after > 0 {
		for i := range after {
			from = append(from, "$"+strconv.Itoa(i+2))
		}
		where = " WHERE (" + ordered + ") > (" + strings.Join(from, ", ") + ")"
	}
	for _, k := range t.Key {
		key = append(key, "t."+k+"::text")
	}
	return "SELECT t.at::text, " + strings.Join(sizes, " + ") + ", " + strings.Join(key, ", ") +
		" FROM (SELECT " + strings.Join(columns, ", ") + " FROM " + t.Name + " r" + where + " ORDER BY " + ordered +
		" LIMIT " + strconv.Itoa(limit) + ") AS t ORDER BY " + strings.Join(prefixed("t.", t.Key), ", ")
}

// read returns a query for the content of rows that must be resealed. Its parameters are the
// locations of the rows and the ID of the current key.
func (t *SealedTable) read() string {
	or := func(column, otherwise string) string {
		if column == "" {
			return otherwise
		}
		return "t." + column
	}
	columns := []string{"t.ctid::text", "t.tenant_id", "t." + t.Place,
		or(t.Step, "0"), or(t.Action, "''"), or(t.Attempt, "0")}
	for i := range t.Values {
		v := &t.Values[i]
		columns = append(columns, "CASE WHEN "+v.old("$2::text")+" THEN "+v.asText()+" END")
	}
	return "SELECT " + strings.Join(columns, ", ") + " FROM " + t.Name + " t WHERE t.ctid = ANY ($1::text[]::tid[])"
}

// put returns the statement that replaces content in rows that are not locked and still have the
// content that was read.
func (t *SealedTable) put() string {
	named, arrays := []string{"at"}, []string{"$1::text[]"}
	var set, same []string
	for i := range t.Values {
		v, was, is := &t.Values[i], "was"+strconv.Itoa(i), "is"+strconv.Itoa(i)
		named = append(named, was, is)
		arrays = append(arrays, "$"+strconv.Itoa(2*i+2)+"::text[]", "$"+strconv.Itoa(2*i+3)+"::text[]")
		set = append(set,
			v.Column+" = CASE WHEN n."+is+" IS NULL THEN t."+v.Column+" ELSE "+v.fromText("n."+is)+" END")
		same = append(same, "(n."+was+" IS NULL OR t."+v.Column+" = "+v.fromText("n."+was)+")")
	}
	// n has the locations as tids, so that each row is looked up by its own tid and compared once.
	return "WITH l AS MATERIALIZED (SELECT r.ctid AS at FROM " + t.Name +
		" r WHERE r.ctid = ANY ($1::text[]::tid[]) FOR NO KEY UPDATE SKIP LOCKED)," +
		" n AS MATERIALIZED (SELECT u.at::tid AS at, " + strings.Join(prefixed("u.", named[1:]), ", ") +
		" FROM unnest(" + strings.Join(arrays, ", ") + ") AS u (" + strings.Join(named, ", ") + "))" +
		" UPDATE " + t.Name + " t SET " + strings.Join(set, ", ") + " FROM n" +
		" WHERE t.ctid = n.at AND n.at IN (SELECT l.at FROM l) AND " + strings.Join(same, " AND ")
}

func prefixed(prefix string, names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = prefix + n
	}
	return out
}

// sealedFunc returns the replacement for a sealed value.
type sealedFunc func(envelope.Field, []byte) ([]byte, error)

// eachSealed returns value with each sealed part of it replaced by the result of f.
func (v *SealedValue) eachSealed(value []byte, row envelope.Field, f sealedFunc) ([]byte, error) {
	row.Name = v.Field
	if v.Inside == nil {
		return f(row, value)
	}
	for _, m := range v.Inside {
		var err error
		row.Name = m.Field
		if value, err = within(value, m.Path, row, f); err != nil {
			return nil, err
		}
	}
	return value, nil
}

// within replaces the members of a document at a path. Absent members stay absent.
func within(doc []byte, path []string, at envelope.Field, f sealedFunc) ([]byte, error) {
	if len(path) == 0 {
		return f(at, doc)
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(doc, &members) != nil || members == nil {
		return doc, nil // a scalar or a list, which has no value at the path
	}
	for name, member := range members {
		if path[0] == "*" {
			step, err := strconv.Atoi(name)
			if err != nil {
				continue
			}
			at.Step = step
		} else if path[0] != name {
			continue
		}
		is, err := within(member, path[1:], at, f)
		if err != nil {
			return nil, err
		}
		members[name] = is
	}
	return json.Marshal(members)
}
