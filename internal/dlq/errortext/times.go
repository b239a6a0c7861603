package errortext

import "strings"

// timeAt returns the end of a time that begins with the digits at i and does not consist only of
// digits and separators, or 0 if there is none.
func timeAt(s string, i int) int {
	end := span(s, i, digit)
	if end-i > 4 || end+1 >= len(s) {
		return 0
	}
	switch s[end] {
	case '-':
		if end-i == 4 && formed(s, i, "0000-00-00T00:00") {
			return zoneAt(s, clockAt(s, i+11))
		}
	case '/':
		for _, form := range [...]string{"0000/00/00", "00/00/0000", "0/00/0000", "00/0/0000", "0/0/0000"} {
			if formed(s, i, form) && !at(s, i+len(form), word) {
				return i + len(form)
			}
		}
	case ' ':
	default:
		return 0
	}
	if at(s, end+1, upper) {
		return calendarAt(s, i)
	}
	return 0
}

// formed reports whether s has digits where form has 0, and otherwise equals form; T may be lower
// case in s.
func formed(s string, i int, form string) bool {
	if len(s)-i < len(form) {
		return false
	}
	for k := range len(form) {
		switch c := s[i+k]; form[k] {
		case '0':
			if !is(c, digit) {
				return false
			}
		case 'T':
			if c != 'T' && c != 't' {
				return false
			}
		default:
			if c != form[k] {
				return false
			}
		}
	}
	return true
}

// clockAt reads 05:06, 05:06:07 and 05:06:07.089. It returns i if there is no time.
func clockAt(s string, i int) int {
	switch {
	case formed(s, i, "00:00"):
		i += 5
	case formed(s, i, "0:00"):
		i += 4
	default:
		return i
	}
	if formed(s, i, ":00") {
		if i += 3; i+1 < len(s) && (s[i] == '.' || s[i] == ',') && is(s[i+1], digit) {
			i = span(s, i+1, digit)
		}
	}
	return i
}

func zoneAt(s string, i int) int {
	switch {
	case i < len(s) && (s[i] == 'Z' || s[i] == 'z'):
		i++
	case i < len(s) && (s[i] == '+' || s[i] == '-') && formed(s, i+1, "00:00"):
		i += 6
	case i < len(s) && (s[i] == '+' || s[i] == '-') && formed(s, i+1, "0000"):
		i += 5
	}
	if i < len(s) && s[i] == '[' { // Java's format: 2026-03-04T05:06:07+01:00[Europe/Paris]
		if end := strings.IndexByte(s[i:min(len(s), i+40)], ']'); end > 0 {
			i += end + 1
		}
	}
	if at(s, i, word) {
		i = span(s, i, word) // it belongs to this time in any case
	}
	return i
}

var (
	days = [...]string{"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday",
		"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"}
	months = [...]string{"January", "February", "March", "April", "May", "June", "July", "August", "September",
		"October", "November", "December", "Jan", "Feb", "Mar", "Apr", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"}
)

// named returns the end of the name from names that begins at i, or 0 if there is none.
func named(s string, i int, names []string) int {
	for _, name := range names {
		if strings.HasPrefix(s[min(i, len(s)):], name) && !at(s, i+len(name), word) {
			return i + len(name)
		}
	}
	return 0
}

// calendarAt reads times with month names: Wed, 04 Mar 2026 05:06:07 GMT; Wed Mar 4 05:06:07 UTC
// 2026; Mar 4, 2026; 04-Mar-2026.
func calendarAt(s string, i int) int {
	if end := named(s, i, days[:]); end > 0 {
		if end < len(s) && s[end] == ',' {
			end++
		}
		if end == len(s) || s[end] != ' ' {
			return 0
		}
		i = end + 1
	}
	var end int
	var year bool
	if at(s, i, digit) {
		day := span(s, i, digit)
		if day-i > 2 || day == len(s) || strings.IndexByte(" -/", s[day]) < 0 {
			return 0
		}
		month := named(s, day+1, months[:])
		if month == 0 || month == len(s) || s[month] != s[day] || !formed(s, month+1, "0000") {
			return 0
		}
		end, year = month+5, true
	} else {
		month := named(s, i, months[:])
		if month == 0 || month == len(s) || s[month] != ' ' {
			return 0
		}
		if end = span(s, month+1, space); !at(s, end, digit) {
			return 0
		}
		day := end
		if end = span(s, end, digit); end-day > 2 {
			return 0
		}
		if end < len(s) && s[end] == ',' && formed(s, end+1, " 0000") {
			end, year = end+6, true
		} else if formed(s, end, " 0000") && !formed(s, end, " 00000") {
			end, year = end+5, true
		}
	}
	if at(s, end, word) {
		return 0
	}
	if end+1 < len(s) && (s[end] == ' ' || s[end] == ':') {
		if clock := clockAt(s, end+1); clock > end+1 && !at(s, clock, word) {
			end = clock
			zone := span(s, end+1, upper)
			if end < len(s) && s[end] == ' ' && zone-end > 2 && zone-end < 7 && !at(s, zone, word) {
				end = zone
			}
			if !year && formed(s, end, " 0000") && !at(s, end+5, word) {
				end += 5
			}
			year = true
		}
	}
	if !year {
		return 0
	}
	return end
}
