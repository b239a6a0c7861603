package config

// rule is a condition between settings. broken returns what is allowed
// instead, or "" when all is well.
type rule struct {
	key    string   // where it is reported
	with   []string // the other settings it looks at
	broken func(Config) string
}

func unless(ok bool, detail string) string {
	if ok {
		return ""
	}
	return detail
}
