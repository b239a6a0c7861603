package certification

import (
	"encoding/xml"
	"slices"
	"strings"
)

type testSuite struct {
	XMLName  xml.Name   `xml:"testsuite"`
	Name     string     `xml:"name,attr"`
	Tests    int        `xml:"tests,attr"`
	Failures int        `xml:"failures,attr"`
	Skipped  int        `xml:"skipped,attr"`
	Cases    []testCase `xml:"testcase"`
	Out      string     `xml:"system-out,omitempty"`
}

type testCase struct {
	Name    string   `xml:"name,attr"`
	Class   string   `xml:"classname,attr"`
	Failure *message `xml:"failure"`
	Skipped *message `xml:"skipped"`
}

type message struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// junit is the report in the format of test result viewers, with one test case per vector.
func (r Report) junit() ([]byte, error) {
	suite := testSuite{Name: "skald participant certify " + r.URL}
	played := slices.Clone(r.Played)
	for _, f := range r.Findings { // under load, a vector may fail that passed when it was played alone
		for _, v := range f.Vectors {
			if !slices.Contains(played, v) {
				played = append(played, v)
			}
		}
	}
	for _, name := range played {
		one := testCase{Name: name, Class: "participant"}
		for _, f := range r.Findings {
			if slices.Contains(f.Vectors, name) {
				one.Failure = &message{
					f.Code + ": " + f.Title,
					f.Why + "\n" + f.Vector + ": " + f.Seen + "\n" + strings.Join(f.Curl, "\n"),
				}
				suite.Failures++
				break
			}
		}
		suite.Cases = append(suite.Cases, one)
	}
	for _, u := range r.Untried {
		if slices.Contains(played, u.Vector) { // it failed under load
			continue
		}
		skipped := testCase{Name: u.Vector, Class: "participant", Skipped: &message{Message: u.Reason}}
		suite.Cases = append(suite.Cases, skipped)
		suite.Skipped++
	}
	for _, w := range r.Warnings {
		suite.Out += "warning " + w.Code + ": " + w.Text + "\n"
	}
	suite.Tests = len(suite.Cases)
	text, err := xml.MarshalIndent(suite, "", "  ")
	return append([]byte(xml.Header), append(text, '\n')...), err
}
