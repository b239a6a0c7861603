package schedule_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// This is the meaning of the words for days in adhocore/gronx 1.20.4, for the days of February
// 2024, which begins on a Thursday, and of August 2026, which begins on a Saturday.
func TestDaysOfCronWords(t *testing.T) {
	t.Parallel()
	february, august := *at("2024-02-01T00:00:00Z"), *at("2026-08-01T00:00:00Z")
	every := func(n int) string { return strings.Trim(fmt.Sprint(days()[:n]), "[]") }
	for _, tt := range []struct{ words, february, august string }{
		{"*/9 * *", "1 10 19 28", "1 10 19 28"},
		{"*/30 * *", "1", "1 31"},
		{"10/7 * *", "10 17 24", "10 17 24 31"},
		{"3-20/5 * *", "3 8 13 18", "3 8 13 18"},
		{"1,1,31 * *", "1", "1 31"},
		{"L * *", "29", "31"},
		{"1W * *", "1", "3"},
		{"15W * *", "15", "14"},
		{"29W * *", "29", "28"},
		{"31W * *", "", "31"},
		{"30W,L,?,2 * *", every(29), every(31)},
		{"8W,23W * *", "8 23", "7 24"},
		{"* * 5L", "23", "28"},
		{"* * SUNL", "25", "30"},
		{"* * 7L", "25", "30"},
		{"* * MON#1", "5", "3"},
		{"* * 7#2", "11", "9"},
		{"* * 4#5", "29", ""},
		{"* * 0#5,6L,WED#3", "21 24", "19 29 30"},
		{"* * */2", "1 3 4 6 8 10 11 13 15 17 18 20 22 24 25 27 29", "1 2 4 6 8 9 11 13 15 16 18 20 22 23 25 27 29 30"},
		{"* * */3", "3 4 7 10 11 14 17 18 21 24 25 28", "1 2 5 8 9 12 15 16 19 22 23 26 29 30"},
		{"* * 2/2", "1 3 6 8 10 13 15 17 20 22 24 27 29", "1 4 6 8 11 13 15 18 20 22 25 27 29"},
		{"* * 7/3", "3 4 7 10 11 14 17 18 21 24 25 28", "1 2 5 8 9 12 15 16 19 22 23 26 29 30"},
		{"* * 0/4", "1 4 8 11 15 18 22 25 29", "2 6 9 13 16 20 23 27 30"},
		{"* * 2-7/3", "2 6 9 13 16 20 23 27", "4 7 11 14 18 21 25 28"},
		{"* * 7-7", "4 11 18 25", "2 9 16 23 30"},
		{"* * 0-7/5", "2 4 9 11 16 18 23 25", "2 7 9 14 16 21 23 28 30"},
		{"* * 5-7", "2 3 4 9 10 11 16 17 18 23 24 25", "1 2 7 8 9 14 15 16 21 22 23 28 29 30"},
		{"* * SUN-TUE", "4 5 6 11 12 13 18 19 20 25 26 27", "2 3 4 9 10 11 16 17 18 23 24 25 30 31"},
		{"* * */7", "4 11 18 25", "2 9 16 23 30"},
		{"13 * FRI", "2 9 13 16 23", "7 13 14 21 28"},
		{"13 * */2", "13", "13"},
		{"*/13 * FRI", "", "14"},
		{"? * TUE", "6 13 20 27", "4 11 18 25"},
		{"L * 6#1", "3 29", "1 31"},
		{"15W * 7L", "15 25", "14 30"},
		{"* 2-9/3 1", "5 12 19 26", "3 10 17 24 31"},
		{"* JAN,FEB,AUG ?", every(29), every(31)},
		{"* 8/2 5/2", "", "7 14 21 28"},
		{"* */7 7", "", "2 9 16 23 30"},
	} {
		s := compiled(t, cronSpec("30 9 "+tt.words))
		for _, month := range []struct {
			first time.Time
			want  string
		}{{february, tt.february}, {august, tt.august}} {
			var got []int
			for _, tick := range s.Ticks(month.first, month.first.AddDate(0, 1, 0), 100) {
				got = append(got, tick.At.Day())
			}
			if g := strings.Trim(fmt.Sprint(got), "[]"); g != month.want {
				t.Errorf("%q in %s: on %s, want %s", tt.words, month.first.Format("January 2006"), g, month.want)
			}
		}
	}
}

// days returns the days of a long month.
func days() (all []int) {
	for d := range 31 {
		all = append(all, d+1)
	}
	return all
}
