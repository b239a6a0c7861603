package config

import (
	"reflect"
	"strings"
)

// reread maps secrets to their files, which are reloaded while the program runs.
var reread = map[string]string{
	"database.password":            "database.password_file",
	"participants.signing_secrets": "participants.signing_secrets_file",
}

// Changed returns the keys of the settings whose values differ. A secret from a file that is
// reloaded anyway counts only if the path of the file differs.
func Changed(from, to Config) []string {
	var keys []string
	for _, f := range fields {
		a, b := from.value(f.key), to.value(f.key)
		if file, ok := reread[f.key]; ok && from.value(file) != "" && to.value(file) != "" {
			continue
		}
		if !reflect.DeepEqual(a, b) {
			keys = append(keys, f.key)
		}
	}
	return keys
}

// value returns the value of a setting.
func (c Config) value(key string) any { return c.setting(key).Interface() }

// setting returns the variable of a setting.
func (c *Config) setting(key string) reflect.Value {
	v := reflect.ValueOf(c).Elem()
	for name := range strings.SplitSeq(key, ".") {
		for i := range v.NumField() {
			if v.Type().Field(i).Tag.Get("key") == name {
				v = v.Field(i)
				break
			}
		}
	}
	return v
}
