package manual

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	code := m.Run()
	Clean()
	os.Exit(code)
}

func write(t *testing.T, page string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(page, "'''", "```")), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAPageIsReadAsItIsPrinted(t *testing.T) {
	path := write(t, `# Page
'''sh
echo before
'''
## It
'''sh
# Not a heading
echo one
'''

'''
one
'''
Prose.
'''json
{"not": "an output"}
'''
### Deeper
'''bash
echo '{}'
'''
'''json
{}
'''
'''
nor this
'''
'''yaml
a: b
'''
<!-- not run: needs Vault -->
'''sh
vault
'''
## After
'''sh
echo after
'''
`)
	blocks, err := section(path, "It")
	if err != nil {
		t.Fatal(err)
	}
	want := []block{
		{line: 7, script: "# Not a heading\necho one\n", output: "one\n", kind: textOutput, at: 12},
		{line: 20, script: "echo '{}'\n", output: "{}\n", kind: jsonOutput, at: 23},
	}
	if len(blocks) != len(want) {
		t.Fatalf("%+v", blocks)
	}
	for i := range want {
		if blocks[i] != want[i] {
			t.Errorf("%+v, want %+v", blocks[i], want[i])
		}
	}
	if whole, err := section(path, ""); err != nil || len(whole) != 4 || whole[0].script != "echo before\n" ||
		whole[3].script != "echo after\n" {
		t.Errorf("the whole page: %v %+v", err, whole)
	}
	for _, heading := range []string{"Page of another name", "Deepe"} {
		if _, err := section(path, heading); err == nil {
			t.Errorf("heading %q is found", heading)
		}
	}
}

func TestWhatIsPrintedIsComparedButForIdsAndTimes(t *testing.T) {
	for _, tt := range []struct {
		name      string
		kind      outputKind
		want, got string
		more      []Mask
		same      bool
	}{
		{"equal", textOutput, "201\n", "201", nil, true},
		{"another number", textOutput, "201\n", "200\n", nil, false},
		{"nothing", textOutput, "201\n", "", nil, false},
		{"more", textOutput, "201\n", "201\n201\n", nil, false},
		{"ids and times", jsonOutput, `{"id":"01a1fef6-2606-7e0c-b6b8-f93b99b9f214","at":"2026-11-21T19:58:35.776024Z"}`,
			`{"at": "2027-01-01T00:00:00Z", "id": "01a20000-2606-7e0c-b6b8-f93b99b9f214"}`, nil, true},
		{"a member less", jsonOutput, `{"a":1,"b":2}`, `{"a":1}`, nil, false},
		{"a member more", jsonOutput, `{"a":1}`, `{"a":1,"b":2}`, nil, false},
		{"not JSON", jsonOutput, `{"a":1}`, `curl: (7)`, nil, false},
		{"ellipsis", textOutput, "first\n…\nlast\n", "first\nx\ny\nlast\n", nil, true},
		{"ellipsis in JSON", jsonOutput, `{"a":1,…}`, `{"a":1,"b":2}`, nil, true},
		{"beside the ellipsis", textOutput, "first …\n", "second x\n", nil, false},
		{"a mask of its own", textOutput, "took 5 ms\n", "took 17 ms\n", []Mask{{`\d+ ms`, "N ms"}}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			diff := differs(block{output: tt.want, kind: tt.kind}, tt.got, tt.more)
			if (diff == "") != tt.same {
				t.Errorf("%q", diff)
			}
		})
	}
}
