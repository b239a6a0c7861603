package config

// rule is a condition between settings. broken returns what is allowed instead, or "" if the
// condition holds.
type rule struct {
	key    string   // the setting that the mistake is reported for
	with   []string // the other settings that it depends on
	broken func(Config) string
}

func unless(ok bool, detail string) string {
	if ok {
		return ""
	}
	return detail
}
