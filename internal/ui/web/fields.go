package web

import "slices"

// FieldGroup is a part of a form. Rare fields are folded unless one of them has a problem or a value
// other than its default.
type FieldGroup struct {
	Title        string
	Fields, Rare []Field
	Opened       bool
}

// Groups divides the fields of the form into groups. Each field with a Group starts a new one.
func (a *Action) Groups() (groups []FieldGroup) {
	for _, f := range a.Fields {
		if f.Group != "" || len(groups) == 0 {
			groups = append(groups, FieldGroup{Title: f.Group})
		}
		last := &groups[len(groups)-1]
		if !f.Rare {
			last.Fields = append(last.Fields, f)
			continue
		}
		last.Rare = append(last.Rare, f)
		last.Opened = last.Opened || f.says()
	}
	return groups
}

// says reports whether a field contains anything but its default, which is its hint or first
// option.
func (f Field) says() bool {
	if f.Problem != "" {
		return true
	}
	usual := []string{"", "0", "{}", "[]", "false", f.Hint}
	if len(f.Options) > 0 {
		usual = append(usual, f.Options[0].Value)
	}
	return !slices.Contains(usual, f.Value)
}
